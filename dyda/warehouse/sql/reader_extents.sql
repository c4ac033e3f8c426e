-- reader_extents: the numbers of the extents that a relation (schema, name) reads directly.
SELECT DISTINCT substr(e.relname, 8)::bigint
FROM pg_class v
JOIN pg_namespace n ON n.oid = v.relnamespace
JOIN pg_rewrite r ON r.ev_class = v.oid
JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid AND d.refclassid = 'pg_class'::regclass
JOIN pg_class e ON e.oid = d.refobjid AND e.relnamespace = 'dyda'::regnamespace
WHERE n.nspname = %s AND v.relname = %s AND v.relkind = 'v' AND e.relname ~ '^extent_[0-9]+$'
