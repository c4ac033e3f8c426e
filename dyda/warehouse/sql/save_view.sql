-- save_view: rows and state after an installation. The reason belongs to the state: both move, or none.
UPDATE dyda.view
SET rows = %(rows)s + CASE WHEN %(absolute)s THEN 0 ELSE rows END,
    state = coalesce(%(state)s, state),
    reason = CASE WHEN %(state)s IS NULL THEN reason ELSE %(reason)s END,
    fresh_at = CASE WHEN %(state)s = 'broken' THEN fresh_at ELSE now() END
WHERE name = %(view)s
