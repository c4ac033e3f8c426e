-- save_source: news of a source; what is NULL stays as it was, an error or mark of '' is cleared.
INSERT INTO dyda.source AS s (name, system_identifier, timeline, gap, capture, capture_order, polled_at, reachable, error, mark)
VALUES (%(name)s, %(system_identifier)s, %(timeline)s, %(gap)s, %(capture)s, %(order)s,
        CASE WHEN %(polled)s THEN clock_timestamp() END, %(reachable)s, nullif(%(error)s, ''), nullif(%(mark)s, ''))
ON CONFLICT (name) DO UPDATE
SET system_identifier = coalesce(excluded.system_identifier, s.system_identifier),
    timeline = coalesce(excluded.timeline, s.timeline),
    gap = coalesce(excluded.gap, s.gap),
    capture = coalesce(excluded.capture, s.capture),
    capture_order = coalesce(excluded.capture_order, s.capture_order),
    polled_at = coalesce(excluded.polled_at, s.polled_at),
    reachable = coalesce(excluded.reachable, s.reachable),
    error = CASE WHEN %(error)s IS NULL THEN s.error ELSE excluded.error END,
    mark = CASE WHEN %(mark)s IS NULL THEN s.mark ELSE excluded.mark END
