-- receive: new messages, in arrival order. One at most per source and transaction.
INSERT INTO dyda.message (source, xid, last_sequence, kind, changes, relations, rows, committed_at)
VALUES %s
ON CONFLICT (source, xid) DO NOTHING
