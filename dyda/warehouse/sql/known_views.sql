-- known_views: their current version, their extent and its form, their columns, their states, where a narrowed extent has
-- the columns, and their layout; NULLs while a view has none.
SELECT v.name, v.version, w.extent, e.form, e.key, w.columns, w.states, w.places, w.layout
FROM dyda.view v
LEFT JOIN dyda.view_version w ON w.view = v.name AND w.version = v.version
LEFT JOIN dyda.extent e ON e.id = w.extent
WHERE v.name = ANY(%s)
