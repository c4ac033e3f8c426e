-- comparable: whether a type, or one that it is binary coercible to (varchar is text), has a default operator class of an
-- access method: hash or btree.
SELECT EXISTS (
    SELECT
    FROM pg_opclass o JOIN pg_am a ON a.oid = o.opcmethod AND a.amname = %(method)s
    WHERE o.opcdefault
      AND (o.opcintype = wanted.type
           OR EXISTS (SELECT FROM pg_cast c
                      WHERE c.castsource = wanted.type AND c.casttarget = o.opcintype AND c.castmethod = 'b')
           OR o.opcintype = 'anyarray'::regtype AND EXISTS (SELECT FROM pg_type e WHERE e.typarray = wanted.type))
)
FROM (SELECT to_regtype(%(type)s)::oid AS type) AS wanted
