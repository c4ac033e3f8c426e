-- blockers: the sessions and prepared transactions that keep capture from being put on a table, or taken off it, because they
-- have written to it and are still open. `any_use` counts readers too, as DROP TRIGGER does. Only its own role and
-- pg_read_all_stats can see what a session does; everybody sees its number, role and application.
SELECT n.nspname::text, c.relname::text, found.pid, found.role, found.application, found.since, found.gid
FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN LATERAL (
    SELECT DISTINCT l.pid, coalesce(a.usename::text, p.owner::text) AS role,
        coalesce(nullif(a.application_name, ''), CASE WHEN a.backend_type <> 'client backend' THEN a.backend_type END)
            AS application,
        coalesce(a.xact_start, p.prepared) AS since, p.gid
    FROM pg_locks l
    LEFT JOIN pg_stat_activity a ON a.pid = l.pid
    -- A prepared transaction has no session, and the lock on its own id.
    LEFT JOIN pg_locks own ON l.pid IS NULL AND own.pid IS NULL AND own.locktype = 'transactionid'
        AND own.virtualtransaction = l.virtualtransaction
    LEFT JOIN pg_prepared_xacts p ON p.transaction = own.transactionid
    WHERE l.locktype = 'relation' AND l.granted AND l.relation = c.oid
      AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
      AND l.pid IS DISTINCT FROM pg_backend_pid()
      AND (%(any_use)s OR l.mode NOT IN ('AccessShareLock', 'RowShareLock'))
) AS found ON true
WHERE c.oid = %(relid)s
ORDER BY found.since NULLS LAST, found.pid
