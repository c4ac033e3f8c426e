-- show_hidden: the view gets what the hidden view has: states, rows, positions. Parameters: view, hidden, version, extent.
UPDATE dyda.view_version w
SET extent = %(extent)s, places = NULL, states = n.states
FROM dyda.view h JOIN dyda.view_version n ON n.view = h.name AND n.version = h.version
WHERE h.name = %(hidden)s AND w.view = %(view)s AND w.version = %(version)s;
UPDATE dyda.view v
SET version = %(version)s, file_text = coalesce(h.file_text, v.file_text), rows = h.rows, fresh_at = h.fresh_at,
    state = 'live', cause = NULL, reason = NULL, earlier = h.earlier
FROM dyda.view h
WHERE v.name = %(view)s AND h.name = %(hidden)s;
DELETE FROM dyda.position WHERE view = %(view)s;
UPDATE dyda.position SET view = %(view)s WHERE view = %(hidden)s;
DELETE FROM dyda.view WHERE name = %(hidden)s
