-- take_request: the oldest request that waits becomes ours.
UPDATE dyda.request
SET state = 'running'
WHERE id = (SELECT id FROM dyda.request WHERE state = 'waiting' ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED)
RETURNING id, verb, arguments, state, progress, result, error, created_at, finished_at
