-- merge_bag: adds a bag of entries to an extent whose rows have digests, in one statement and one snapshot.
-- A digest finds candidates; the same row is the one with the same text. What was found is found again by its place: one
-- snapshot, so it has not moved.
-- Returns the change in rows, rows written, rows that the extent is estimated to have, how many entries take away more
-- copies than there are, one of those, and how many rows were found.
WITH grouped AS MATERIALIZED (
    {grouped}
), found AS MATERIALIZED (
    SELECT entry.row_text, entry.n, held.places
    FROM grouped AS entry CROSS JOIN LATERAL (
        SELECT coalesce(array_agg(one.place), '{{}}') AS places
        FROM (SELECT e.ctid AS place FROM {extent} AS e
              WHERE e.{digest} = {entry_digest} AND {text} = entry.row_text
              LIMIT - entry.n) AS one
    ) AS held
    WHERE entry.n < 0
), removed AS (
    DELETE FROM {extent} AS e USING (SELECT unnest(places) AS place FROM found) AS gone WHERE e.ctid = gone.place
), added AS (
    INSERT INTO {extent} ({stored})
    SELECT {values} FROM (SELECT entry.*, generate_series(1, n) AS copy FROM grouped AS entry WHERE n > 0) AS entry
)
SELECT (SELECT coalesce(sum(n), 0)::bigint FROM grouped), (SELECT coalesce(sum(abs(n)), 0)::bigint FROM grouped),
       (SELECT reltuples FROM pg_class WHERE oid = {name}::regclass),
       count(*) FILTER (WHERE cardinality(places) < - n), min(row_text) FILTER (WHERE cardinality(places) < - n),
       coalesce(sum(cardinality(places)), 0)::bigint
FROM found
