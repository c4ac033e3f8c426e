-- grouped_rows: a table of entries (texts and signed counts) as a bag of rows. Two rows are the same if their canonical
-- texts are: PostgreSQL's own = takes 1.0 for 1.00, and json has none.
-- min() picks one of several texts that mean the same value; row_text has decided that already.
SELECT row_text, {minima}, sum(n)::bigint AS n
FROM (SELECT ROW({casts})::text COLLATE "C" AS row_text, {columns}, n FROM {entries}) AS entry
GROUP BY row_text
HAVING sum(n) <> 0
