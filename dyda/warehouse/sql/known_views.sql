-- known_views: their state and its cause, their current version, their extent and its form, their columns, their states, where a narrowed extent has
-- the columns, their layout, and the forms of all their tables; NULLs while a view has none.
SELECT v.name, v.state, v.cause, v.version, w.extent, coalesce(f.form, 'counted'), f.key, w.columns, w.states, w.places, w.layout,
       coalesce((SELECT jsonb_object_agg(t.id, g.form) FROM dyda.extent t JOIN dyda.form g ON g.extent = t.id
                 WHERE t.view = v.name), '{}')
FROM dyda.view v
LEFT JOIN dyda.view_version w ON w.view = v.name AND w.version = v.version
LEFT JOIN dyda.form f ON f.extent = w.extent
WHERE v.name = ANY(%s)
