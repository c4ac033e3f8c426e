-- holder: the session that holds the project's lock, and what it said of itself. The lock is the truth.
SELECT d.role, d.pid, d.host, d.since, d.fence, d.obstacle
FROM pg_locks l
LEFT JOIN dyda.daemon d ON d.backend = l.pid
WHERE l.locktype = 'advisory' AND l.granted AND l.mode = 'ExclusiveLock'
  AND l.classid = %(class)s AND l.objid = %(key)s AND l.objsubid = 2
  AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
ORDER BY d.fence DESC NULLS LAST
LIMIT 1
