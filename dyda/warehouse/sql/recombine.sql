-- recombine: groups that were read again. For each one that differs from the state: key, its texts, whether a count is
-- below zero, whether it was and is there, and the numbers before and after. One look-up by key per group.
WITH whole AS MATERIALIZED (
    {whole}
), printed AS (
    SELECT {keys}, whole.negative, e.c1 IS NOT NULL AS existed, whole.n > 0 AS remains{befores}{afters}
    FROM whole LEFT JOIN {extent} AS e ON e.c1 = whole.c1 COLLATE "C"
)
SELECT *
FROM printed
WHERE negative OR existed <> remains OR remains AND ROW({before_names}) IS DISTINCT FROM ROW({after_names})
