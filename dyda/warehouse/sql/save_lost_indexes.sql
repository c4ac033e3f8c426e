-- save_lost_indexes: what the history of a view says of indexes that it has lost with its current version.
UPDATE dyda.view_version w
SET details = jsonb_set(w.details, '{lost_indexes}', coalesce(w.details -> 'lost_indexes', '[]') || %(lost)s::jsonb)
FROM dyda.view v
WHERE v.name = %(view)s AND w.view = v.name AND w.version = v.version
