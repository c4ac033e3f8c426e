-- whole_grouped: the state rows of a grouping from all entries (keys, arguments, n, asked) of its groups.
-- (c1 ... as the state has them, n = 1 if the group is there, negative). A group without rows is there if it is the one
-- without keys. Where an aggregate of PostgreSQL's own is used, each row occurs as often as it is in the bag, in
-- an order that depends on nothing else: sums of floats come out the same each time.
SELECT {key} AS c1{state_keys}, format('%s', rows) AS {rows_column}{printed}, {exists} AS n, negative
FROM (
    SELECT {keys} coalesce(sum(n), 0)::bigint AS rows, coalesce(bool_or(below), false) AS negative{accumulators}
    FROM (
        SELECT {keys} {arguments} {one} AS n, net < 0 AS below, asked
        FROM (
            SELECT {keys} {arguments} sum(n)::bigint AS net, bool_or(asked) AS asked
            FROM (SELECT {prints} n, asked FROM {entries}) AS entry
            GROUP BY {group_keys_arguments}
        ) AS netted {copies}
    ) AS repeated
    GROUP BY {group_keys}
    {having}
) AS grouped
