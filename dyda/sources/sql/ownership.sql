-- ownership: what is in schema dyda and belongs to somebody else than the role that is to own it, as the statements that
-- give it to that role. Parameters: owner, tables, sequences, functions (names). Reads pg_catalog. Empty: nothing to do.
SELECT 'SCHEMA dyda', n.nspowner
FROM pg_namespace n WHERE n.nspname = 'dyda' AND n.nspowner <> %(owner)s::oid
UNION ALL
SELECT format('%%s dyda.%%I', CASE c.relkind WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END, c.relname), c.relowner
FROM pg_class c
WHERE c.relnamespace = to_regnamespace('dyda') AND c.relname = ANY (%(relations)s::text[]) AND c.relowner <> %(owner)s::oid
UNION ALL
SELECT format('FUNCTION %%s', p.oid::regprocedure), p.proowner
FROM pg_proc p
WHERE p.pronamespace = to_regnamespace('dyda') AND p.proname = ANY (%(functions)s::text[]) AND p.proowner <> %(owner)s::oid
