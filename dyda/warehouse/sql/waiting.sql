-- waiting: the daemons that wait for the project's lock, and what they said of themselves. Their shared lock is the truth.
SELECT w.pid, w.host, w.since
FROM pg_locks l JOIN dyda.waiting w ON w.backend = l.pid
WHERE l.locktype = 'advisory' AND l.granted AND l.mode = 'ShareLock'
  AND l.classid = %(class)s AND l.objid = %(key)s AND l.objsubid = 2
  AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
ORDER BY w.since, w.backend
