-- view_forms: each view with the form of its table, the key of that, its columns and its layout.
SELECT v.name, coalesce(f.form, 'counted'), f.key, w.columns, w.layout
FROM dyda.view v
JOIN dyda.view_version w ON w.view = v.name AND w.version = v.version
LEFT JOIN dyda.form f ON f.extent = w.extent
WHERE v.name NOT LIKE '%/next'  -- what a lane has built has its form already
ORDER BY v.name
