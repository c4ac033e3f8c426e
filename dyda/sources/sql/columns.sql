-- columns: a table's columns, domains resolved to their base. Parameter: relids (oid array). Reads pg_catalog.
-- bare: without its modifier; of a type of somebody's own with a part that prints as a name (PgType.prints_names), that part.
-- builtin: the warehouse knows the type too; an array is as builtin as its elements.
-- attnotnull alone promises nothing: from PostgreSQL 18 on it is also true of a constraint that is not validated yet.
-- The same text runs inside the sources' own transactions, as dyda.columns.
WITH RECURSIVE resolved(relid, number, typid, typmod) AS (
    SELECT a.attrelid, a.attnum, a.atttypid, a.atttypmod
    FROM pg_attribute a
    WHERE a.attrelid = ANY (%(relids)s::oid[]) AND a.attnum > 0 AND NOT a.attisdropped
    UNION ALL
    SELECT r.relid, r.number, t.typbasetype, t.typtypmod
    FROM resolved r JOIN pg_type t ON t.oid = r.typid WHERE t.typtype = 'd'
), parts(whole, typid) AS (
    -- What the text of a type of somebody's own is made of.
    SELECT r.typid, r.typid FROM resolved r WHERE r.typid >= 16384
    UNION
    SELECT p.whole, n.typid
    FROM parts p JOIN pg_type t ON t.oid = p.typid AND t.oid >= 16384
    CROSS JOIN LATERAL (
        SELECT t.typelem WHERE t.typelem <> 0
        UNION ALL SELECT t.typbasetype WHERE t.typbasetype <> 0
        UNION ALL SELECT a.atttypid FROM pg_attribute a
                  WHERE a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped
        UNION ALL SELECT g.rngsubtype FROM pg_range g WHERE t.oid IN (g.rngtypid, g.rngmultitypid)
    ) AS n (typid)
)
SELECT a.attrelid, a.attname::text, a.attnum::integer,
       a.attnotnull AND NOT EXISTS (SELECT FROM pg_constraint n WHERE n.conrelid = a.attrelid AND n.contype = 'n'
                                    AND NOT n.convalidated AND n.conkey = ARRAY[a.attnum]),
       a.attgenerated::text,
       coalesce((SELECT min(rtrim(format_type(p.typid, NULL), '[]')) FROM parts p
                 WHERE p.whole = r.typid AND p.typid < 16384 AND rtrim(format_type(p.typid, NULL), '[]') IN
                       ('aclitem', 'regclass', 'regcollation', 'regconfig', 'regdatabase', 'regdictionary', 'regnamespace',
                        'regoper', 'regoperator', 'regproc', 'regprocedure', 'regrole', 'regtype')),
                format_type(r.typid, NULL)),
       format_type(r.typid, r.typmod), r.typid < 16384
FROM resolved r
JOIN pg_type t ON t.oid = r.typid AND t.typtype <> 'd'
JOIN pg_attribute a ON a.attrelid = r.relid AND a.attnum = r.number
ORDER BY a.attrelid, a.attnum
