-- save_version: a new version and the view's pointer to it. Without a program of its own it has that of the one before.
INSERT INTO dyda.view_version (view, version, sql, columns, relations, details, extent, places, cause, states, layout,
                               program)
VALUES (%(view)s, %(version)s, %(sql)s, %(columns)s, %(relations)s::text[], %(details)s, %(extent)s, %(places)s,
        %(cause)s, %(states)s, %(layout)s,
        coalesce(%(program)s, (SELECT w.program FROM dyda.view v JOIN dyda.view_version w USING (version)
                               WHERE v.name = %(view)s AND w.view = %(view)s)));
UPDATE dyda.view
SET version = %(version)s, file_text = coalesce(%(file_text)s, file_text)
WHERE name = %(view)s
