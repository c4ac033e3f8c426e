-- outdated_extents: views whose table has not the form that a new one would get.
SELECT v.name
FROM dyda.view v
JOIN dyda.view_version w ON w.view = v.name AND w.version = v.version
JOIN dyda.extent e ON e.id = w.extent
WHERE e.form NOT IN ('keyed', 'bag') OR e.form = 'bag' AND w.layout ->> 'key' IS NOT NULL
ORDER BY v.name
