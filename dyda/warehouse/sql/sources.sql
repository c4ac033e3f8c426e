-- sources: every source with the state of its part of the queue. Parameter: counted (false: nothing is said to wait).
SELECT s.name, s.system_identifier, s.timeline, s.gap, s.capture, s.capture_order AS "order", s.polled_at, s.reachable,
       s.error, s.mark, count(m.id) AS pending,
       greatest(0, coalesce(extract(epoch FROM clock_timestamp() - min(coalesce(m.committed_at, m.received_at))), 0))
           ::double precision AS lag_seconds
FROM dyda.source s LEFT JOIN dyda.message m ON %(counted)s AND m.source = s.name
GROUP BY s.name
ORDER BY s.name COLLATE "C"
