-- keys: column sets that are unique and not null, the primary key first. Parameter: relids (oid array). Only constraints
-- count: whoever drops one alters the table, and that is logged in its place; an index comes and goes without a trace. An
-- index of an inheritance parent does not see the children's rows, so such a parent has no key; a partitioned table's does.
SELECT i.indrelid, array_agg(a.attname::text ORDER BY k.place)
FROM pg_constraint u
JOIN pg_index i ON i.indexrelid = u.conindid AND i.indrelid = u.conrelid
JOIN pg_class c ON c.oid = i.indrelid
CROSS JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY AS k (number, place)
JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number
WHERE u.conrelid = ANY (%(relids)s::oid[]) AND u.contype IN ('p', 'u') AND i.indisunique AND i.indisvalid
  AND i.indimmediate AND i.indpred IS NULL AND i.indexprs IS NULL AND k.place <= i.indnkeyatts
  AND (c.relkind = 'p' OR NOT EXISTS (SELECT FROM pg_inherits h WHERE h.inhparent = c.oid))
GROUP BY i.indrelid, i.indexrelid, i.indisprimary
HAVING bool_and(a.attnotnull AND NOT EXISTS (SELECT FROM pg_constraint n WHERE n.conrelid = a.attrelid AND n.contype = 'n'
                                             AND NOT n.convalidated AND n.conkey = ARRAY[a.attnum]))
ORDER BY i.indrelid, i.indisprimary DESC, i.indexrelid
