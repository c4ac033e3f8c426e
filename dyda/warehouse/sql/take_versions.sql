-- take_versions: the versions of a hidden view follow those of the view. Parameters: view, hidden, offset.
INSERT INTO dyda.view_version
    (view, version, sql, columns, relations, details, extent, cause, installed_at, states, places, program, layout)
SELECT %(view)s, version + %(offset)s, sql, columns, relations, details, extent, cause, now(), states, places, program, layout
FROM dyda.view_version WHERE view = %(hidden)s
