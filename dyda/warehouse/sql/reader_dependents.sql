-- reader_dependents: the relations (views, materialized views) whose definition reads the relation (schema, name).
SELECT DISTINCT format('%%I.%%I', n.nspname, c.relname)
FROM pg_class v
JOIN pg_namespace s ON s.oid = v.relnamespace
JOIN pg_depend d ON d.refclassid = 'pg_class'::regclass AND d.refobjid = v.oid AND d.classid = 'pg_rewrite'::regclass
JOIN pg_rewrite r ON r.oid = d.objid
JOIN pg_class c ON c.oid = r.ev_class AND c.oid <> v.oid
JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE s.nspname = %s AND v.relname = %s
ORDER BY 1
