-- keys: the column sets of unique constraints, the primary key first; sql/columns.sql tells which are not null. Parameter:
-- relids (oid array). Indexes without a constraint come and go without a trace, while dropping a constraint is logged. An
-- inheritance parent has no key, for its index does not see the children's rows; a partitioned table's does.
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
ORDER BY i.indrelid, i.indisprimary DESC, i.indexrelid
