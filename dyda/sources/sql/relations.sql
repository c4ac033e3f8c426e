-- relations: what there is to watch. Partitions and inheritance children are reached through their parent.
SELECT n.nspname, c.relname
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND c.relpersistence = 'p'
  AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast', 'dyda')
  AND NOT EXISTS (SELECT FROM pg_inherits i WHERE i.inhrelid = c.oid)
ORDER BY n.nspname COLLATE "C", c.relname COLLATE "C"
