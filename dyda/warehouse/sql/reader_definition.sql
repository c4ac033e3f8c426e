-- reader_definition: the definition of the view (schema, name), as PostgreSQL prints it.
SELECT pg_get_viewdef(c.oid)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = %s AND c.relname = %s AND c.relkind = 'v'
