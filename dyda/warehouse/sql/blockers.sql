-- blockers: the sessions that the holder of the project's lock waits for.
SELECT a.pid, a.usename::text AS "user", a.application_name AS application, a.xact_start AS since, a.query
FROM pg_locks l
CROSS JOIN LATERAL unnest(pg_blocking_pids(l.pid)) AS blocking (pid)
JOIN pg_stat_activity a ON a.pid = blocking.pid
WHERE l.locktype = 'advisory' AND l.granted AND l.mode = 'ExclusiveLock'
  AND l.classid = %(class)s AND l.objid = %(key)s AND l.objsubid = 2
  AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
ORDER BY a.xact_start
