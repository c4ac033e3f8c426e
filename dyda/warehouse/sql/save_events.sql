-- save_events: what happened, in this order, in the transaction in which it did.
INSERT INTO dyda.event (at, kind, view, source, message, text, next, cause, details)
SELECT clock_timestamp(), e.kind, e.view, e.source, e.message, e.text, e.next, e.cause::jsonb, e.details::jsonb
FROM unnest(%(kind)s::text[], %(view)s::text[], %(source)s::text[], %(message)s::bigint[], %(text)s::text[],
            %(next)s::text[], %(causes)s::text[], %(details)s::text[])
     WITH ORDINALITY AS e (kind, view, source, message, text, next, cause, details, place)
ORDER BY e.place
RETURNING id, at
