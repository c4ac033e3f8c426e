-- lost_indexes: what views have lost since their files were last applied and have not got back, the oldest first.
WITH applied AS (
    SELECT w.view, max(w.version) AS version
    FROM dyda.view_version w
    WHERE coalesce(w.details #>> '{cause,reason}', w.details #>> '{cause,to_be_built,reason}')
          IN ('created', 'file_changed', 'applied_again')
    GROUP BY w.view
), indexed AS (
    SELECT v.name AS view, c.relname::text AS name, i.indisunique AS is_unique,
           to_jsonb(array(SELECT a.attname::text FROM unnest(i.indkey::smallint[]) WITH ORDINALITY AS k (number, place)
                          JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number ORDER BY k.place)) AS columns
    FROM dyda.view v
    JOIN dyda.view_version w ON w.view = v.name AND w.version = v.version
    JOIN pg_class t ON t.relnamespace = 'dyda'::regnamespace AND t.relname = 'extent_' || w.extent
    JOIN pg_index i ON i.indrelid = t.oid
    JOIN pg_class c ON c.oid = i.indexrelid
)
SELECT w.view, lost.entry
FROM dyda.view_version w
LEFT JOIN applied ON applied.view = w.view
CROSS JOIN LATERAL jsonb_array_elements(w.details -> 'lost_indexes') WITH ORDINALITY AS lost (entry, place)
WHERE w.version >= coalesce(applied.version, 0)
  AND NOT EXISTS (
      SELECT FROM indexed
      WHERE indexed.view = w.view AND jsonb_typeof(lost.entry) = 'object'
        AND (indexed.name = lost.entry ->> 'name'
             OR indexed.columns = lost.entry -> 'columns'
                AND (indexed.is_unique OR NOT coalesce((lost.entry ->> 'unique')::boolean, true)))
  )
ORDER BY w.view, w.version, lost.place
