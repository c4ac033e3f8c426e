-- compare: an extent with what it should be. Missing and extra rows, counted, and the first few of them.
WITH grouped AS MATERIALIZED (
    {grouped}
), different AS MATERIALIZED (
    SELECT coalesce(entry.n, 0) - coalesce(e.count, 0) AS n, {shown}
    FROM grouped AS entry FULL JOIN {extent} AS e ON e.hash = entry.hash
    WHERE coalesce(entry.n, 0) <> coalesce(e.count, 0)
), total AS (
    SELECT coalesce(sum(n) FILTER (WHERE n > 0), 0)::bigint AS missing,
           coalesce(-sum(n) FILTER (WHERE n < 0), 0)::bigint AS extra
    FROM different
)
SELECT total.missing, total.extra, sample.*
FROM total LEFT JOIN (SELECT * FROM different ORDER BY n DESC, {columns} LIMIT {limit}) AS sample ON true
