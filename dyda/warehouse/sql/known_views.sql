-- known_views: their current version, their extent and its form, their columns, their states, where a narrowed extent has
-- the columns, their layout, and the forms of all their tables; NULLs while a view has none.
SELECT v.name, v.version, w.extent, e.form, e.key, w.columns, w.states, w.places, w.layout,
       (SELECT jsonb_object_agg(t.id, t.form) FROM dyda.extent t WHERE t.view = v.name)
FROM dyda.view v
LEFT JOIN dyda.view_version w ON w.view = v.name AND w.version = v.version
LEFT JOIN dyda.extent e ON e.id = w.extent
WHERE v.name = ANY(%s)
