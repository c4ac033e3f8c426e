-- sizes: how many bytes relations have with all tables that they consist of. Parameter: relids (oid array). Sizes are those of
-- the files, now; asking opens the tables. One row for each relation that exists.
WITH RECURSIVE below(root, relid) AS (
    SELECT c.oid, c.oid FROM pg_class c WHERE c.oid = ANY (%(relids)s::oid[])
    UNION
    SELECT b.root, i.inhrelid FROM below b JOIN pg_inherits i ON i.inhparent = b.relid
)
SELECT b.root, coalesce(sum(pg_table_size(b.relid)), 0)::bigint
FROM below b JOIN pg_class c ON c.oid = b.relid AND c.relkind = 'r'
GROUP BY b.root
