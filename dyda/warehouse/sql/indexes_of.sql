-- indexes_of: the indexes of a table: oid, name, columns (NULL if there is more to it: expressions, a condition, an order,
-- included columns), whether unique, definition.
SELECT i.indexrelid, c.relname,
       CASE WHEN i.indexprs IS NULL AND i.indpred IS NULL AND i.indnatts = i.indnkeyatts AND m.amname = 'btree'
                 AND NOT EXISTS (SELECT FROM unnest(i.indoption::smallint[]) AS option WHERE option <> 0)
            THEN array(SELECT a.attname::text FROM unnest(i.indkey::smallint[]) WITH ORDINALITY AS k (number, place)
                       JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number ORDER BY k.place) END,
       i.indisunique, pg_get_indexdef(i.indexrelid)
FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am m ON m.oid = c.relam
WHERE i.indrelid = to_regclass(%s)
ORDER BY i.indexrelid
