-- forget_old_events: those that are older than events are kept, or more than are kept. Installed units come many in a
-- second, and are kept for a shorter time. Parameters: days, lasting; hours, units.
DELETE FROM dyda.event
WHERE CASE kind
      WHEN 'unit.installed' THEN at < now() - make_interval(hours => %(hours)s)
          OR id <= (SELECT id FROM dyda.event WHERE kind = 'unit.installed' ORDER BY id DESC OFFSET %(units)s LIMIT 1)
      ELSE at < now() - make_interval(days => %(days)s)
          OR id <= (SELECT id FROM dyda.event WHERE kind <> 'unit.installed' ORDER BY id DESC OFFSET %(lasting)s LIMIT 1)
      END
