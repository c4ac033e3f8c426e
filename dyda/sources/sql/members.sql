-- members: what rule C3 asks of every table of a hierarchy. Parameter: relids (oid array). Reads pg_catalog.
SELECT c.oid, n.nspname, c.relname, c.relkind::text, c.relpersistence::text,
       -- never analysed: estimated at 100 bytes a row, unless somebody alters the table or waits to: asking for its size takes
       -- a lock
       CASE WHEN c.reltuples >= 0 THEN c.reltuples::bigint
            WHEN c.relkind <> 'r' THEN 0
            WHEN EXISTS (SELECT FROM pg_locks l JOIN pg_database d ON d.oid = l.database
                         WHERE d.datname = current_database() AND l.relation = c.oid AND l.mode = 'AccessExclusiveLock')
            THEN pg_stat_get_live_tuples(c.oid)
            ELSE pg_relation_size(c.oid) / 100 END,
       EXISTS (SELECT FROM pg_subscription_rel s WHERE s.srrelid = c.oid),
       ARRAY(SELECT i.inhparent FROM pg_inherits i WHERE i.inhrelid = c.oid),
       ARRAY(SELECT format('%%I.%%I', pn.nspname, p.relname) FROM pg_inherits i JOIN pg_class p ON p.oid = i.inhparent
             JOIN pg_namespace pn ON pn.oid = p.relnamespace WHERE i.inhrelid = c.oid)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.oid = ANY (%(relids)s::oid[])
