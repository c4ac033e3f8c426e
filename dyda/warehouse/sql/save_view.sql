-- save_view: rows and state after an installation. The cause belongs to the state: both move, or none.
-- Only one that has moved is known to be fresher than it was. One that breaks is judged anew when it comes back, by its
-- sources as they are then: what it knew of them before the catalog went on (`earlier`) goes.
UPDATE dyda.view
SET rows = %(rows)s + CASE WHEN %(absolute)s THEN 0 ELSE rows END,
    state = coalesce(%(state)s, state),
    cause = CASE WHEN %(state)s IS NULL THEN cause ELSE %(cause)s::jsonb END,
    reason = CASE WHEN %(state)s IS NULL THEN reason ELSE %(reason)s END,
    earlier = CASE WHEN %(state)s = 'broken' THEN NULL ELSE earlier END,
    fresh_at = CASE WHEN %(moved)s AND coalesce(%(state)s, state) IN ('live', 'held') THEN now() ELSE fresh_at END
WHERE name = %(view)s
