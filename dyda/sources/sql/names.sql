-- names: the table with each name (null: none). Parameters: schemas, tables (text arrays of one length). Reads pg_catalog.
SELECT c.oid
FROM unnest(%(schemas)s::text[], %(tables)s::text[]) WITH ORDINALITY AS u (schema_name, table_name, position)
LEFT JOIN (pg_namespace n JOIN pg_class c ON c.relnamespace = n.oid)
    ON n.nspname = u.schema_name AND c.relname = u.table_name
ORDER BY u.position
