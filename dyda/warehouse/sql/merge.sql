-- merge: adds a bag of entries to an extent, in one statement and one snapshot.
-- What was found is found again by its place: one snapshot, so it has not moved.
-- A row goes away exactly when its count reaches zero, so CHECK (count > 0) holds at every moment.
-- Returns the change in rows, how many entries would go below zero, and one of those.
WITH grouped AS MATERIALIZED (
    {grouped}
), found AS MATERIALIZED (
    {found}
), removed AS (
    DELETE FROM {extent} AS e USING found WHERE e.ctid = found.place AND found.old + found.n = 0
), moved AS (
    UPDATE {extent} AS e SET count = found.old + found.n
    FROM found WHERE e.ctid = found.place AND found.old + found.n > 0
), added AS (
    INSERT INTO {extent} (hash, {columns}, count)
    SELECT hash, {casts}, n FROM found WHERE old IS NULL AND n > 0
)
SELECT coalesce(sum(n), 0)::bigint,
       count(*) FILTER (WHERE coalesce(old, 0) + n < 0),
       min(ROW({columns})::text) FILTER (WHERE coalesce(old, 0) + n < 0)
FROM found
