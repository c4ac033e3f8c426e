-- combine_counted: entries (c1 ... cn, n, side, t) against the state of a set operation. For each row and tag that moves:
-- key, the row's texts, t, left and right before, left and right after, delivered before and after.
-- Before a tag is what the state has and the sum of all smaller tags (W6). One look-up by key per row and tag; no other
-- join, since the session's planner may only look up.
WITH entry AS (
    SELECT {prints} n, side, t FROM {entries}
), moved AS (
    SELECT {texts} t, coalesce(sum(n) FILTER (WHERE side = 0), 0) AS l, coalesce(sum(n) FILTER (WHERE side = 1), 0) AS r
    FROM entry
    GROUP BY {texts} t
), summed AS MATERIALIZED (
    SELECT {key} AS key, {texts} t, l, r, sum(l) OVER up AS l_sum, sum(r) OVER up AS r_sum
    FROM moved
    WINDOW up AS (PARTITION BY {partition} ORDER BY t ROWS UNBOUNDED PRECEDING)
), placed AS (
    SELECT key, {texts} t,
           coalesce(e.{left_column}, 0) + l_sum - l AS l_before, coalesce(e.{right_column}, 0) + r_sum - r AS r_before,
           coalesce(e.{left_column}, 0) + l_sum AS l_after, coalesce(e.{right_column}, 0) + r_sum AS r_after
    FROM summed LEFT JOIN {extent} AS e ON e.c1 = summed.key COLLATE "C"
    WHERE l <> 0 OR r <> 0
)
SELECT key, {texts} t, l_before, r_before, l_after, r_after, {delivered_before}, {delivered_after}
FROM placed
