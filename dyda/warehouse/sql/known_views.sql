-- known_views: their current version, their extent, their columns, their states and where the extent has the columns;
-- NULLs while a view has none.
SELECT v.name, v.version, w.extent, w.columns, w.states, w.places
FROM dyda.view v LEFT JOIN dyda.view_version w ON w.view = v.name AND w.version = v.version
WHERE v.name = ANY(%s)
