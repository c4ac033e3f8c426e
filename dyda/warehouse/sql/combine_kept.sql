-- combine_kept: entries (c1 ... cn, n, t) against a kept bag: the entries added up per row and tag, and whether the row
-- would have a negative count. The row is looked up by the extent's own hash.
WITH entry AS (
    SELECT {prints} n, t FROM {entries}
), moved AS (
    SELECT {texts} t, sum(n) AS n FROM entry GROUP BY {texts} t
), summed AS MATERIALIZED (
    SELECT sha256(convert_to(ROW({partition})::text, 'UTF8')) AS hash, {texts} t, n, sum(n) OVER up AS n_sum
    FROM moved
    WINDOW up AS (PARTITION BY {partition} ORDER BY t ROWS UNBOUNDED PRECEDING)
)
SELECT {texts} t, n, coalesce(e.count, 0) + n_sum < 0 AS negative
FROM summed LEFT JOIN {extent} AS e ON e.hash = summed.hash
WHERE n <> 0
