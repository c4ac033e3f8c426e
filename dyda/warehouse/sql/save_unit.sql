-- save_unit: what a unit did and cost.
INSERT INTO dyda.unit (mode, kind, started_at, installed_at, messages, rows, queries, jobs, phases)
VALUES (%(mode)s, %(kind)s,
        coalesce(%(started_at)s, now()), clock_timestamp(), %(messages)s, %(rows)s, %(queries)s, %(jobs)s, %(phases)s)
RETURNING id
