-- messages: per transaction what it did to each watched relation. Parameter: after (pg_snapshot as text, or null).
-- Reads dyda.entries under the caller's snapshot. One row per transaction, relation and run of row images between two
-- entries of another kind (each schema change and truncation is a row of its own), in log order.
SELECT e.xid::text::bigint, e.root, e.kind::text,
       count(*) FILTER (WHERE e.op = 'I'), count(*) FILTER (WHERE e.op = 'D'),
       e.image, e.last,
       CASE WHEN current_setting('track_commit_timestamp')::boolean THEN pg_xact_commit_timestamp(e.xid::xid) END
FROM (
    SELECT l.xid, l.root, CASE WHEN l.op IN ('S', 'T') THEN l.image END AS image, l.seq, l.op,
           CASE WHEN l.op = 'D' THEN 'I' ELSE l.op END AS kind,
           max(l.seq) OVER (PARTITION BY l.xid) AS last,
           count(*) FILTER (WHERE l.op IN ('S', 'T')) OVER (PARTITION BY l.xid ORDER BY l.seq) AS run
    FROM dyda.entries(%(after)s::pg_snapshot) l
) AS e
GROUP BY e.xid, e.root, e.kind, e.run, e.image, e.last
ORDER BY e.last, min(e.seq)
