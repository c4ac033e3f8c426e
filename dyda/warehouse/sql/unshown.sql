-- unshown: views whose readers' view, in schema %(schema)s, is gone or does not read the extent any more, and whether
-- there is something else of that name.
SELECT v.name, EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                       WHERE n.nspname = %(schema)s AND c.relname = v.name) AS replaced
FROM dyda.view v JOIN dyda.view_version w ON w.view = v.name AND w.version = v.version
WHERE right(v.name, 5) <> '/next' AND NOT EXISTS (
    SELECT FROM pg_class c
    JOIN pg_namespace n ON n.oid = c.relnamespace
    JOIN pg_rewrite r ON r.ev_class = c.oid
    JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid AND d.refclassid = 'pg_class'::regclass
    JOIN pg_class e ON e.oid = d.refobjid AND e.relnamespace = 'dyda'::regnamespace
    WHERE n.nspname = %(schema)s AND c.relname = v.name AND c.relkind = 'v' AND e.relname = 'extent_' || w.extent)
