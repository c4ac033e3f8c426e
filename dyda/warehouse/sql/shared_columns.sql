-- shared_columns: how many entries there are, and of a sample of them: how many, and for each choice of columns how many
-- ordered pairs agree in it, whether one has a NULL there, and how long its texts are.
WITH sample AS MATERIALIZED (
    SELECT * FROM {entries} LIMIT {limit}
)
SELECT (SELECT count(*) FROM {entries}), (SELECT count(*) FROM sample), {choices}
