-- fill_plain: the first rows of a new plain extent, before it has a key. A row with a negative count is inserted no times;
-- the caller compares the number of rows with the sum of the entries.
INSERT INTO {extent} ({stored})
SELECT {values} FROM (SELECT entry.*, generate_series(1, n) AS copy FROM ({grouped}) AS entry) AS entry
{order}
