-- merge_keyed: adds a bag of entries to an extent with a key, in one statement and one snapshot. One look-up per key.
-- gone and come are how many rows with this key the bag takes away and adds. A row that replaces another one with its key
-- is an update, which leaves the indexes alone where no indexed column changes. What was found is found again by its
-- place: one snapshot, so it has not moved.
-- Nothing is written for a key where something is wrong: a row to take away is not there with exactly this text, a row
-- to add finds another one with its key, or one row would be there twice.
-- Returns the change in rows, rows written, rows that the extent is estimated to have, how many keys are wrong, a row
-- of one of those, and how many rows there were.
WITH grouped AS MATERIALIZED (
    {grouped}
), by_key AS MATERIALIZED (
    SELECT {key_names}
           count(*) FILTER (WHERE n < 0) AS gone, count(*) FILTER (WHERE n > 0) AS come, max(abs(n)) AS most,
           min(row_text) FILTER (WHERE n < 0) AS old_text, min(row_text) AS any_text, {added}
    FROM (SELECT *{keys} FROM grouped) AS entry
    GROUP BY {by_key}
    HAVING count(*) > 0
), found AS MATERIALIZED (
    SELECT entry.*, e.ctid AS place,
           entry.gone > 1 OR entry.come > 1 OR entry.most > 1
           OR CASE WHEN entry.gone > 0 THEN e.ctid IS NULL OR {text} <> entry.old_text
              ELSE e.ctid IS NOT NULL END AS wrong
    FROM by_key AS entry LEFT JOIN {extent} AS e ON {matched}
), removed AS (
    DELETE FROM {extent} AS e USING found WHERE e.ctid = found.place AND found.come = 0 AND NOT found.wrong
), moved AS (
    UPDATE {extent} AS e SET {assigned}
    FROM found WHERE e.ctid = found.place AND found.gone = 1 AND found.come = 1 AND NOT found.wrong
), added AS (
    INSERT INTO {extent} ({stored}) SELECT {values} FROM found WHERE gone = 0 AND NOT wrong
)
SELECT coalesce(sum(come - gone), 0)::bigint, coalesce(sum(greatest(come, gone)), 0)::bigint,
       (SELECT reltuples FROM pg_class WHERE oid = {name}::regclass),
       count(*) FILTER (WHERE wrong), min(any_text) FILTER (WHERE wrong), count(place)
FROM found
