-- receive: new messages, in arrival order. One at most per source and transaction. Most transactions did the same as
-- many others, so what they did is sent once: `kinds` ... `counts` are what there is of it, `shapes` says which it was.
INSERT INTO dyda.message (source, xid, last_sequence, kind, changes, relations, rows, committed_at)
SELECT %(source)s, m.xid, m.last_sequence, s.kind, s.changes,
       ARRAY(SELECT jsonb_array_elements_text(s.relations)), s.rows, m.committed_at
FROM unnest(%(xids)s::bigint[], %(sequences)s::bigint[], %(shapes)s::bigint[], %(committed)s::timestamptz[])
         WITH ORDINALITY AS m (xid, last_sequence, shape, committed_at, place)
JOIN unnest(%(kinds)s::text[], %(changes)s::jsonb[], %(relations)s::jsonb[], %(counts)s::bigint[])
         WITH ORDINALITY AS s (kind, changes, relations, rows, shape) ON s.shape = m.shape
ORDER BY m.place
ON CONFLICT (source, xid) DO UPDATE SET xid = excluded.xid  -- there already: its number is returned all the same
RETURNING xid, id
