-- whole_kept: a kept bag from all of its entries (c1 ... cn, n): each row once, with its count, and whether that is below 0.
SELECT {state_texts}, n, n < 0 AS negative
FROM (SELECT {texts} sum(n)::bigint AS n FROM (SELECT {prints} n FROM {entries}) AS entry GROUP BY {partition}) AS kept
