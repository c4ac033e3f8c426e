-- whole_counted: the state rows of a set operation from all of its entries (c1 ... cn, side, n).
-- (c1 ... as the state has them, n = 1 if the row is there, negative)
SELECT {key} AS c1{state_texts}, format('%s', l) AS {left_column}, format('%s', r) AS {right_column},
       CASE WHEN l > 0 OR r > 0 THEN 1 ELSE 0 END AS n, l < 0 OR r < 0 AS negative
FROM (
    SELECT {texts} coalesce(sum(n) FILTER (WHERE side = 0), 0) AS l, coalesce(sum(n) FILTER (WHERE side = 1), 0) AS r
    FROM (SELECT {prints} {side} AS side, n FROM {entries}) AS entry
    {group_by}
) AS counted
