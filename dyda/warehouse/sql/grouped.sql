-- grouped: a table of entries (texts and signed counts) as a bag keyed by what the rows are.
-- The key is the digest of the row's canonical text: PostgreSQL's own = takes 1.0 for 1.00, and json has none.
-- min() picks one of several texts that mean the same value; the key has decided that already.
SELECT hash, {minima}, sum(n)::bigint AS n
FROM (SELECT sha256(convert_to(ROW({casts})::text, 'UTF8')) AS hash, {columns}, n FROM {entries}) AS entry
GROUP BY hash
HAVING sum(n) <> 0
