-- found, for a replacement: the difference between what shall be and what is. Only rows that differ are written, so
-- that a reader with an older snapshot keeps every row it had (I2).
SELECT coalesce(entry.hash, e.hash) AS hash, {entry_columns},
       coalesce(entry.n, 0) - coalesce(e.count, 0) AS n, e.count AS old, e.ctid AS place
FROM grouped AS entry FULL JOIN {extent} AS e ON e.hash = entry.hash
WHERE coalesce(entry.n, 0) <> coalesce(e.count, 0)
