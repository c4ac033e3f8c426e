-- pages: the size of each table that holds rows. Parameter: relids (oid array). Sizes are those of the files, now.
SELECT n.nspname, c.relname, coalesce(m.amname, ''),
       pg_relation_size(c.oid) / current_setting('block_size')::bigint, pg_table_size(c.oid), greatest(c.reltuples, 0)::bigint
FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_am m ON m.oid = c.relam
WHERE c.oid = ANY (%(relids)s::oid[]) AND c.relkind = 'r' AND pg_relation_size(c.oid) > 0
ORDER BY c.oid
