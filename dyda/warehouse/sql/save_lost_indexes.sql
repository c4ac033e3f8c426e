-- save_lost_indexes: what the history of a view says of indexes that it has lost with its current version. An index that
-- is lost again replaces what was said of it; an older version wrote texts.
UPDATE dyda.view_version w
SET details = jsonb_set(w.details, '{lost_indexes}', (
    SELECT coalesce(jsonb_agg(entry), '[]') FROM jsonb_array_elements(coalesce(w.details -> 'lost_indexes', '[]')) AS entry
    WHERE jsonb_typeof(entry) <> 'object'
       OR entry - 'detail' NOT IN (SELECT lost - 'detail' FROM jsonb_array_elements(%(lost)s::jsonb) AS lost)
) || %(lost)s::jsonb)
FROM dyda.view v
WHERE v.name = %(view)s AND w.view = v.name AND w.version = v.version
