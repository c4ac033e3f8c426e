-- view_indexes: the indexes of a view's table, with their size and how often they were read. One that finds rows may be
-- what the view's file declares, too.
SELECT c.relname AS name,
       CASE WHEN c.relname LIKE 'dyda\_key\_%%' THEN 'key' WHEN c.relname LIKE 'dyda\_declared\_key\_%%' THEN 'declared key'
            WHEN c.relname LIKE 'dyda\_index\_%%' THEN 'declared'
            WHEN c.relname LIKE 'dyda\_row\_%%' AND to_jsonb(k.columns) IN (
                SELECT jsonb_array_elements(w.layout -> 'indexes') UNION ALL SELECT w.layout -> 'declared_key'
            ) THEN 'declared'
            WHEN c.relname LIKE 'dyda\_row\_%%' OR f.extent IS NULL AND i.indisprimary THEN 'rows'
            ELSE 'by hand' END AS purpose,
       k.columns,
       i.indisunique AS "unique", pg_get_indexdef(c.oid) AS definition, pg_relation_size(c.oid) AS bytes,
       coalesce(pg_stat_get_numscans(c.oid), 0) AS scans
FROM dyda.view v
JOIN dyda.view_version w ON w.view = v.name AND w.version = v.version
LEFT JOIN dyda.form f ON f.extent = w.extent
JOIN pg_class t ON t.relnamespace = 'dyda'::regnamespace AND t.relname = 'extent_' || w.extent
JOIN pg_index i ON i.indrelid = t.oid
JOIN pg_class c ON c.oid = i.indexrelid
CROSS JOIN LATERAL (
    SELECT array(SELECT a.attname::text FROM unnest(i.indkey::smallint[]) WITH ORDINALITY AS k (number, place)
                 JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number ORDER BY k.place) AS columns
) AS k
WHERE v.name = %(view)s
ORDER BY purpose, c.relname
