-- compare_sets: two staged bags over the same columns, as sets. How many rows there are on each side, how many of them
-- the other side does not have, and the first few of those. NULL is a value here: GROUP BY finds NULLs equal.
WITH together AS MATERIALIZED (
    SELECT {columns}, sum(l)::bigint AS l, sum(r)::bigint AS r
    FROM (SELECT {columns}, n AS l, 0 AS r FROM {left} UNION ALL SELECT {columns}, 0, n FROM {right}) AS entry
    GROUP BY {columns}
), total AS (
    SELECT coalesce(sum(l), 0)::bigint AS left_rows, coalesce(sum(r), 0)::bigint AS right_rows,
           coalesce(sum(l) FILTER (WHERE r = 0), 0)::bigint AS left_alone,
           coalesce(sum(r) FILTER (WHERE l = 0), 0)::bigint AS right_alone
    FROM together
)
SELECT total.*, sample.*
FROM total LEFT JOIN (
    SELECT l, r, {columns} FROM together WHERE {wanted} ORDER BY {columns} LIMIT {limit}
) AS sample ON true
