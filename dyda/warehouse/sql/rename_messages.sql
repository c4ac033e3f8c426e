-- rename_messages: what waits in the queue names tables as the catalog does. Parameters: source; old and new, names as
-- texts (codec.name_to_text), each new one beside its old one.
WITH renamed AS MATERIALIZED (
    SELECT r.old, r.new, r.old::jsonb ->> 1 AS schema, r.old::jsonb ->> 2 AS "table"
    FROM unnest(%(old)s::text[], %(new)s::text[]) AS r (old, new)
)
UPDATE dyda.message m
SET relations = ARRAY(SELECT coalesce(r.new, t.name)
                      FROM unnest(m.relations) AS t (name) LEFT JOIN renamed r ON r.old = t.name ORDER BY 1),
    changes = (SELECT jsonb_agg(CASE WHEN r.new IS NULL THEN c.change
                                     ELSE c.change || jsonb_build_object('schema', r.new::jsonb -> 1, 'table', r.new::jsonb -> 2)
                                END ORDER BY c.place)
               FROM jsonb_array_elements(m.changes) WITH ORDINALITY AS c (change, place)
               LEFT JOIN renamed r ON r.schema = c.change ->> 'schema' AND r."table" = c.change ->> 'table')
WHERE m.source = %(source)s AND m.relations && %(old)s::text[]
