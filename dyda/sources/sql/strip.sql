-- strip: the statements that take DyDa's triggers off a table. Parameter: relid. Reads pg_catalog.
SELECT format('DROP TRIGGER %%I ON %%I.%%I', t.tgname, n.nspname, c.relname)
FROM pg_trigger t
JOIN pg_class c ON c.oid = t.tgrelid
JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_proc p ON p.oid = t.tgfoid
JOIN pg_namespace o ON o.oid = p.pronamespace
WHERE t.tgrelid = %(relid)s AND o.nspname = 'dyda' AND p.proname = 'capture'
