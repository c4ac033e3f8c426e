-- take_over: a new fence for a new holder of the lock. First the fence: it waits for a write in flight. What the last
-- holder had begun is void: its unit's messages wait again, and its requests fail.
UPDATE dyda.project SET fence = fence + 1;
UPDATE dyda.message SET state = 'waiting', unit = NULL WHERE state = 'running';
UPDATE dyda.request
SET state = 'failed', finished_at = now(),
    error = '{"what": "the process that was working on it has ended", "remedy": "Run the command again."}'
WHERE state = 'running';
DELETE FROM dyda.daemon;
INSERT INTO dyda.daemon (fence, role, pid, host, backend)
SELECT fence, %(role)s, %(pid)s, %(host)s, pg_backend_pid() FROM dyda.project
RETURNING fence
