-- known_view: a view's current version, its extent, its columns, its states and where the extent has the columns;
-- NULLs while it has none.
SELECT v.version, w.extent, w.columns, w.states, w.places
FROM dyda.view v LEFT JOIN dyda.view_version w ON w.view = v.name AND w.version = v.version
WHERE v.name = %s
