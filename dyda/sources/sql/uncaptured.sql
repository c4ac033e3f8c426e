-- uncaptured: tables below a watched relation without complete capture, and captured tables that are no longer below it.
-- Parameter: root (oid). Run by the role that attached.
SELECT
    ARRAY(SELECT t FROM dyda.tree(%(root)s) t
          WHERE NOT EXISTS (SELECT FROM dyda.member m WHERE m.relid = t AND m.root = %(root)s)
             OR (SELECT count(*) FROM dyda.capturing(t, %(root)s)) < 4),
    ARRAY(SELECT m.relid FROM dyda.member m
          WHERE m.root = %(root)s AND m.relid NOT IN (SELECT t FROM dyda.tree(%(root)s) t))
