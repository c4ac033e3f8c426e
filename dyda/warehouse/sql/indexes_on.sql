-- indexes_on: the indexes that depend on one of these columns of a table and go with it, but for those
-- that find rows.
SELECT DISTINCT c.relname::text
FROM pg_attribute a
JOIN pg_depend d ON d.refclassid = 'pg_class'::regclass AND d.refobjid = a.attrelid AND d.refobjsubid = a.attnum
LEFT JOIN pg_constraint k ON d.classid = 'pg_constraint'::regclass AND k.oid = d.objid
JOIN pg_index i ON i.indexrelid = CASE WHEN d.classid = 'pg_class'::regclass THEN d.objid ELSE k.conindid END
JOIN pg_class c ON c.oid = i.indexrelid
WHERE a.attrelid = %s::regclass AND a.attname = ANY(%s) AND c.relname !~ '^dyda_(key|row)_'
ORDER BY 1
