-- found, for a delta: each entry beside the count that the extent has of it. One index look-up per entry.
SELECT entry.hash, {entry_columns}, entry.n, e.count AS old, e.ctid AS place
FROM grouped AS entry LEFT JOIN {extent} AS e ON e.hash = entry.hash
