-- combine_grouped: entries (keys, arguments, n, t) against the state of a grouping. For each group and tag that moves:
-- key, the group's texts, t, whether it must be read again, whether a count is below zero, whether it was and will be
-- there, and the numbers before and after (rows, accumulators).
-- net_i: by how much the argument's value moves in the group; a value that only changes its company does not.
-- One look-up by key per group and tag; no other join, since the session's planner may only look up.
WITH entry AS (
    SELECT {prints} n, t FROM {entries}
), netted AS (
    SELECT {keys} {arguments} t, sum(n) AS n
    FROM entry
    GROUP BY {keys} {arguments} t
    HAVING sum(n) <> 0
), valued AS (
    SELECT *{nets} FROM netted
), moved AS (
    SELECT {keys} t, sum(n) AS rows{changes}
    FROM valued
    GROUP BY {keys} t
), summed AS MATERIALIZED (
    SELECT {key} AS key, moved.*, row_number() OVER up = 1 AS first, sum(rows) OVER up AS rows_sum{sums}
    FROM moved
    WINDOW up AS (PARTITION BY {partition} ORDER BY t ROWS UNBOUNDED PRECEDING)
), placed AS (
    SELECT key, {keys} t, first, e.c1 IS NOT NULL AS stored,
           coalesce(e.{rows_column}, 0) + rows_sum - rows AS rows_before,
           coalesce(e.{rows_column}, 0) + rows_sum AS rows_after{placed}
    FROM summed LEFT JOIN {extent} AS e ON e.c1 = summed.key COLLATE "C"
), printed AS (
    SELECT key, {keys} t, {stale} AS stale, {negative} AS negative,
           CASE WHEN first THEN stored ELSE {before_exists} END AS existed, {after_exists} AS remains,
           format('%s', rows_before) AS rows_before{befores}, format('%s', rows_after) AS rows_after{afters}
    FROM placed
)
SELECT *
FROM printed
WHERE stale OR negative OR existed <> remains OR remains AND ROW({before_names}) IS DISTINCT FROM ROW({after_names})
