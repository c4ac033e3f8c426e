-- members: what rule C3 asks of every table of a hierarchy. Parameter: relids (oid array). Reads pg_catalog.
SELECT c.oid, n.nspname, c.relname, c.relkind::text, c.relpersistence::text,
       -- never analysed: a guess of 100 bytes a row
       CASE WHEN c.reltuples >= 0 THEN c.reltuples::bigint WHEN c.relkind = 'r' THEN pg_relation_size(c.oid) / 100 ELSE 0 END,
       EXISTS (SELECT FROM pg_subscription_rel s WHERE s.srrelid = c.oid),
       ARRAY(SELECT i.inhparent FROM pg_inherits i WHERE i.inhrelid = c.oid),
       ARRAY(SELECT format('%%I.%%I', pn.nspname, p.relname) FROM pg_inherits i JOIN pg_class p ON p.oid = i.inhparent
             JOIN pg_namespace pn ON pn.oid = p.relnamespace WHERE i.inhrelid = c.oid),
       coalesce((SELECT m.amname FROM pg_am m WHERE m.oid = c.relam), ''),
       pg_get_userbyid(c.relowner)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.oid = ANY (%(relids)s::oid[])
