-- save_relation: a relation as its views are planned with it.
INSERT INTO dyda.relation AS r (source, schema, "table", oid, fingerprint, columns, keys, estimated_rows, captured, position)
VALUES (%(source)s, %(schema)s, %(table)s, %(oid)s, %(fingerprint)s, %(columns)s, %(keys)s, %(estimated_rows)s,
        %(captured)s, %(position)s)
ON CONFLICT (source, schema, "table") DO UPDATE
SET oid = excluded.oid, fingerprint = coalesce(excluded.fingerprint, r.fingerprint), columns = excluded.columns,
    keys = excluded.keys, estimated_rows = excluded.estimated_rows, captured = excluded.captured,
    position = coalesce(excluded.position, r.position)
