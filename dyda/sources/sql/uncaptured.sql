-- uncaptured: tables of a watched relation without complete capture, and captured tables that are no longer part of it.
-- Parameter: root (oid). Run by the role that attached. Tables that belong to a session, and those above a foreign table,
-- are not to be captured: see dyda.obstacles. The third list has those among the latter that still are.
SELECT
    ARRAY(SELECT c.oid FROM dyda.tree(%(root)s) t JOIN pg_class c ON c.oid = t
          WHERE NOT (c.oid = ANY (o.suspended) OR c.oid = ANY (o.foreign_tables) OR c.oid = ANY (o.temporary))
            AND (NOT EXISTS (SELECT FROM dyda.member m WHERE m.relid = t AND m.root = %(root)s)
                 OR (SELECT count(*) FROM dyda.capturing(t, %(root)s)) < 4)),
    ARRAY(SELECT m.relid FROM dyda.member m
          WHERE m.root = %(root)s AND m.relid NOT IN (SELECT t FROM dyda.tree(%(root)s) t)),
    ARRAY(SELECT s FROM unnest(o.suspended) s WHERE (SELECT count(*) FROM dyda.capturing(s, %(root)s)) > 1)
FROM dyda.obstacles(%(root)s) o
