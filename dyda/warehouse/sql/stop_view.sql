-- stop_view: a view is about to break, or to wait for a rebuild: from now on `fresh_at` stays the moment up to which its
-- rows are complete. views.sql and catalog/queries.py compute the same for a live view.
UPDATE dyda.view AS v
SET fresh_at = least(now(), coalesce(
    (SELECT min(coalesce(m.committed_at, m.received_at))
     FROM dyda.message m
     JOIN dyda.position p ON p.view = v.name AND p.source = m.source
     JOIN dyda.view_version w ON w.view = v.name AND w.version = v.version
     WHERE (cardinality(w.relations) = 0 OR w.relations && m.relations)
       AND NOT pg_visible_in_snapshot(m.xid::text::xid8, p.position::pg_snapshot)),
    greatest(v.fresh_at,
             (SELECT CASE WHEN count(*) = count(s.polled_at) THEN min(s.polled_at) END
              FROM dyda.position p LEFT JOIN dyda.source s ON s.name = p.source
              WHERE p.view = v.name))))
WHERE v.name = %(view)s AND v.state IN ('live', 'held') AND v.fresh_at IS NOT NULL
