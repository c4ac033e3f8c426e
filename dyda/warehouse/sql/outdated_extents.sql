-- outdated_extents: views whose table has not the form that a new one would get. The key of a bag is one that was tried.
SELECT v.name
FROM dyda.view v
JOIN dyda.view_version w ON w.view = v.name AND w.version = v.version
LEFT JOIN dyda.form f ON f.extent = w.extent
WHERE coalesce(f.form, 'counted') NOT IN ('keyed', 'bag')
   OR f.form = 'bag' AND f.key IS NULL AND jsonb_typeof(w.layout -> 'key') = 'array'
      AND jsonb_array_length(w.layout -> 'key') <= %s
ORDER BY v.name
