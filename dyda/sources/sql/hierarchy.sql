-- hierarchy: the tables that relations consist of. Parameter: relids (oid array). Reads pg_catalog.
-- One row for each relation that exists.
WITH RECURSIVE below(root, relid) AS (
    SELECT c.oid, c.oid FROM pg_class c WHERE c.oid = ANY (%(relids)s::oid[])
    UNION
    SELECT b.root, i.inhrelid FROM below b JOIN pg_inherits i ON i.inhparent = b.relid
)
SELECT b.root, n.nspname, n.xmin::text, c.relname, array_agg(b.relid ORDER BY b.relid)
FROM below b JOIN pg_class c ON c.oid = b.root JOIN pg_namespace n ON n.oid = c.relnamespace
GROUP BY b.root, n.nspname, n.xmin::text, c.relname
