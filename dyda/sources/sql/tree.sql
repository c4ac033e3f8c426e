-- tree: the tables a named relation consists of. Parameters: schemas, tables (text arrays of one length).
-- Reads pg_catalog. One row per relation and member; relid is null where the name leads nowhere.
WITH RECURSIVE below(position, root, relid) AS (
    SELECT u.position, c.oid, c.oid
    FROM unnest(%(schemas)s::text[], %(tables)s::text[]) WITH ORDINALITY AS u (schema_name, table_name, position)
    LEFT JOIN (pg_namespace n JOIN pg_class c ON c.relnamespace = n.oid)
        ON n.nspname = u.schema_name AND c.relname = u.table_name
    UNION
    SELECT b.position, b.root, i.inhrelid FROM below b JOIN pg_inherits i ON i.inhparent = b.relid
)
SELECT position, root, relid FROM below
