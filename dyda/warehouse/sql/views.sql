-- views: every view with its version, its positions, and what has been received and is not in it yet.
-- A message concerns a view if it touches one of the view's relations; a version that lists none reads everything of
-- the sources it has positions for. Parameters: name (NULL: all), counted (false: nothing is said to wait), hidden (true:
-- also those that no reader sees yet).
-- A position may list thousands of transactions, so its text is read once, not for every message.
WITH placed AS MATERIALIZED (
    SELECT p.view, p.source, p.position::pg_snapshot AS position FROM dyda.position p
), standing AS (
    SELECT p.view, jsonb_object_agg(p.source, p.position) AS positions,
           CASE WHEN count(*) = count(s.polled_at) THEN min(s.polled_at) END AS polled_at,
           (array_agg(jsonb_build_object('source', s.name, 'error', s.error) ORDER BY s.name)
                FILTER (WHERE NOT s.reachable))[1] AS away
    FROM dyda.position p LEFT JOIN dyda.source s ON s.name = p.source
    GROUP BY p.view
), waiting AS (
    SELECT p.view, count(*) AS pending, min(coalesce(m.committed_at, m.received_at)) AS oldest,
           bool_or(m.state IN ('held', 'approval')) AS held,
           jsonb_agg(DISTINCT m.cause) FILTER (WHERE m.state NOT IN ('waiting', 'running') AND m.cause IS NOT NULL) AS waits_for
    FROM dyda.message m
    JOIN placed p ON p.source = m.source
    JOIN dyda.view v ON v.name = p.view
    JOIN dyda.view_version w ON w.view = v.name AND w.version = v.version
    WHERE %(counted)s AND (cardinality(w.relations) = 0 OR w.relations && m.relations)
      AND NOT pg_visible_in_snapshot(m.xid::text::xid8, p.position)
    GROUP BY p.view
)
SELECT v.name, v.state, v.cause, v.file_text, v.version, v.rows, v.fresh_at, v.created_at, v.earlier,
       w.sql, w.columns, w.relations, w.details, w.states, w.program, w.layout,
       CASE WHEN w.places IS NOT NULL OR EXISTS (SELECT FROM dyda.form f WHERE f.extent = w.extent AND f.form = 'loose')
            THEN pg_table_size(to_regclass('dyda.extent_' || w.extent)) END AS narrowed,
       standing.positions, standing.polled_at, standing.away,
       coalesce(waiting.pending, 0) AS pending, waiting.oldest, waiting.held,
       waiting.waits_for, clock_timestamp() AS now
FROM dyda.view v
LEFT JOIN dyda.view_version w ON w.view = v.name AND w.version = v.version
LEFT JOIN standing ON standing.view = v.name
LEFT JOIN waiting ON waiting.view = v.name
WHERE CASE WHEN %(name)s::text IS NULL THEN %(hidden)s OR right(v.name, 5) <> '/next' ELSE v.name = %(name)s::text END
ORDER BY v.name COLLATE "C"
