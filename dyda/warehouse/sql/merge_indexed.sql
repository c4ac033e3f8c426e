-- merge_indexed: adds a bag of entries to an extent whose rows are found by columns that few of them share, in one
-- statement and one snapshot. The columns find candidates; the same row is the one with the same text. What was found is
-- found again by its place: one snapshot, so it has not moved.
-- A row that goes away and one that comes with the same columns are one update, which leaves the indexes alone where no
-- indexed column changes.
-- Returns the change in rows, rows written, rows that the extent is estimated to have, how many entries take away more
-- copies than there are, one of those, and how many candidates there were.
WITH grouped AS MATERIALIZED (
    SELECT *{keys} FROM ({grouped}) AS entry
), held AS MATERIALIZED (
    SELECT {key_names}entry.row_text, entry.n, candidates.places, candidates.examined
    FROM grouped AS entry CROSS JOIN LATERAL (
        SELECT coalesce((array_agg(e.ctid) FILTER (WHERE {text} = entry.row_text))
                        [1:least(- entry.n, 2147483647)::integer], '{{}}') AS places,
               count(*) AS examined
        FROM {extent} AS e WHERE {matched}
    ) AS candidates
    WHERE entry.n < 0
), gone AS (
    SELECT {key_names}place, row_number() OVER (PARTITION BY {by_key} ORDER BY row_text) AS number
    FROM held CROSS JOIN LATERAL unnest(places) AS place
), come AS (
    SELECT *, row_number() OVER (PARTITION BY {by_key} ORDER BY row_text) AS number
    FROM (SELECT grouped.*, generate_series(1, n) AS copy FROM grouped WHERE n > 0) AS entry
), found AS MATERIALIZED (
    SELECT * FROM gone FULL JOIN come USING ({by_key}, number)
), removed AS (
    DELETE FROM {extent} AS e USING found WHERE e.ctid = found.place AND found.n IS NULL
), moved AS (
    UPDATE {extent} AS e SET {assigned} FROM found WHERE e.ctid = found.place AND found.n IS NOT NULL
), added AS (
    INSERT INTO {extent} ({stored}) SELECT {values} FROM found WHERE place IS NULL
)
SELECT (SELECT coalesce(sum(n), 0)::bigint FROM grouped), (SELECT count(*) FROM found),
       (SELECT reltuples FROM pg_class WHERE oid = {name}::regclass),
       count(*) FILTER (WHERE cardinality(places) < - n), min(row_text) FILTER (WHERE cardinality(places) < - n),
       coalesce(sum(examined), 0)::bigint
FROM held
