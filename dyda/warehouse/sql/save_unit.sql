-- save_unit: what a unit did and cost.
INSERT INTO dyda.unit (id, mode, kind, started_at, installed_at, messages, rows, queries, jobs, phases)
VALUES (coalesce(%(id)s, nextval(pg_get_serial_sequence('dyda.unit', 'id'))), %(mode)s, %(kind)s,
        coalesce(%(started_at)s, now()), clock_timestamp(), %(messages)s, %(rows)s, %(queries)s, %(jobs)s, %(phases)s)
