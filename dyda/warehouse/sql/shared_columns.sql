-- shared_columns: how many rows there are, and in a sample of the entries: how many, and for each choice of columns how many
-- ordered pairs of rows agree in it, and whether one has a NULL there.
WITH sample AS MATERIALIZED (
    SELECT * FROM {entries} LIMIT {limit}
)
SELECT (SELECT coalesce(sum(n), 0) FROM {entries}), (SELECT coalesce(sum(n), 0) FROM sample), {choices}
