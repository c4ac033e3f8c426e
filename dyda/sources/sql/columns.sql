-- columns: a table's columns, domains resolved to their base. Parameter: relids (oid array). Reads pg_catalog.
-- builtin: the warehouse knows the type too; an array is as builtin as its elements.
-- The same text runs inside the sources' own transactions, as dyda.columns.
WITH RECURSIVE resolved(relid, number, typid, typmod) AS (
    SELECT a.attrelid, a.attnum, a.atttypid, a.atttypmod
    FROM pg_attribute a
    WHERE a.attrelid = ANY (%(relids)s::oid[]) AND a.attnum > 0 AND NOT a.attisdropped
    UNION ALL
    SELECT r.relid, r.number, t.typbasetype, t.typtypmod
    FROM resolved r JOIN pg_type t ON t.oid = r.typid WHERE t.typtype = 'd'
)
SELECT a.attrelid, a.attname::text, a.attnum::integer, a.attnotnull, a.attgenerated::text,
       format_type(r.typid, NULL), format_type(r.typid, r.typmod), r.typid < 16384
FROM resolved r
JOIN pg_type t ON t.oid = r.typid AND t.typtype <> 'd'
JOIN pg_attribute a ON a.attrelid = r.relid AND a.attnum = r.number
ORDER BY a.attrelid, a.attnum
