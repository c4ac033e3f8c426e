-- compare: an extent with what it should be. Missing and extra rows, counted, and the first few of them.
-- By what its rows say, not by the digests beside them: a row may have been changed by hand, without its digest.
WITH grouped AS MATERIALIZED (
    {grouped}
), held AS MATERIALIZED (
    SELECT sha256(convert_to(ROW({columns})::text, 'UTF8')) AS hash, {minima}, sum(count)::bigint AS count
    FROM {held} AS e GROUP BY 1
), different AS MATERIALIZED (
    SELECT coalesce(entry.n, 0) - coalesce(e.count, 0) AS n, {shown}
    FROM grouped AS entry FULL JOIN held AS e ON e.hash = entry.hash
    WHERE coalesce(entry.n, 0) <> coalesce(e.count, 0)
), total AS (
    SELECT coalesce(sum(n) FILTER (WHERE n > 0), 0)::bigint AS missing,
           coalesce(-sum(n) FILTER (WHERE n < 0), 0)::bigint AS extra
    FROM different
)
SELECT total.missing, total.extra, sample.*
FROM total LEFT JOIN (SELECT * FROM different ORDER BY n DESC, {columns} LIMIT {limit}) AS sample ON true
