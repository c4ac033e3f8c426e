-- same_version: whether the hidden view says what the view says already: then the view was only read again.
-- Parameters: view, hidden.
SELECT EXISTS (
    SELECT FROM dyda.view v JOIN dyda.view_version w ON w.view = v.name AND w.version = v.version
    JOIN dyda.view h ON h.name = %(hidden)s JOIN dyda.view_version n ON n.view = h.name AND n.version = h.version
    WHERE v.name = %(view)s AND h.version = 1 AND h.file_text IS NULL AND NOT coalesce((w.details->>'behind')::boolean, false)
      AND (w.sql, w.columns, w.program, w.layout) IS NOT DISTINCT FROM (n.sql, n.columns, n.program, n.layout)
      AND (SELECT jsonb_agg(s - 'extent') FROM jsonb_array_elements(w.states) s)
          IS NOT DISTINCT FROM (SELECT jsonb_agg(s - 'extent') FROM jsonb_array_elements(n.states) s))
