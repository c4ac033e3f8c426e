-- save_version: a new version and the view's pointer to it.
INSERT INTO dyda.view_version (view, version, sql, columns, relations, details, extent, places, cause, states)
VALUES (%(view)s, %(version)s, %(sql)s, %(columns)s, %(relations)s::text[], %(details)s, %(extent)s, %(places)s,
        %(cause)s, %(states)s);
UPDATE dyda.view
SET version = %(version)s, file_text = coalesce(%(file_text)s, file_text)
WHERE name = %(view)s
