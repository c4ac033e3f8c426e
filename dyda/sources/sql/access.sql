-- access: who can have written what PostgreSQL evaluates when tables are read, and who may read them. Parameter: relids (oid
-- array), all tables of a relation. Reads pg_catalog only; nothing here opens a user's table.
-- owners: of the table, and of the functions, operators and types that its indexes, statistics, constraints, policies,
-- generated columns, partition key and columns use, casts of these types included. Superusers and the session's own role are
-- left out: they gain nothing. Then the rights of the session's role and of the reader role (null: there is none).
WITH RECURSIVE reached(relid, classid, objid) AS (
    SELECT c.oid, 'pg_class'::regclass::oid, c.oid FROM pg_class c WHERE c.oid = ANY (%(relids)s::oid[])
    UNION
    SELECT r.relid, next.classid, next.objid
    FROM reached r CROSS JOIN LATERAL (
        SELECT d.refclassid, d.refobjid FROM pg_depend d
        WHERE d.classid = r.classid AND d.objid = r.objid AND d.refobjid >= 16384
          AND d.refclassid IN ('pg_proc'::regclass, 'pg_operator'::regclass, 'pg_type'::regclass, 'pg_opclass'::regclass)
        UNION ALL SELECT 'pg_class'::regclass, i.indexrelid FROM pg_index i
        WHERE r.classid = 'pg_class'::regclass AND i.indrelid = r.objid
        UNION ALL SELECT 'pg_attrdef'::regclass, a.oid FROM pg_attrdef a
        WHERE r.classid = 'pg_class'::regclass AND a.adrelid = r.objid
        UNION ALL SELECT 'pg_constraint'::regclass, k.oid FROM pg_constraint k
        WHERE r.classid = 'pg_class'::regclass AND k.conrelid = r.objid AND k.contype = 'c'
        UNION ALL SELECT 'pg_policy'::regclass, p.oid FROM pg_policy p
        WHERE r.classid = 'pg_class'::regclass AND p.polrelid = r.objid
        UNION ALL SELECT 'pg_statistic_ext'::regclass, s.oid FROM pg_statistic_ext s
        WHERE r.classid = 'pg_class'::regclass AND s.stxrelid = r.objid
        UNION ALL SELECT 'pg_cast'::regclass, k.oid FROM pg_cast k
        WHERE r.classid = 'pg_type'::regclass AND k.castsource = r.objid
        UNION ALL SELECT 'pg_proc'::regclass, f.amproc::oid FROM pg_opclass o JOIN pg_amproc f ON f.amprocfamily = o.opcfamily
        WHERE r.classid = 'pg_opclass'::regclass AND o.oid = r.objid AND f.amproc::oid >= 16384
        UNION ALL SELECT 'pg_operator'::regclass, f.amopopr FROM pg_opclass o JOIN pg_amop f ON f.amopfamily = o.opcfamily
        WHERE r.classid = 'pg_opclass'::regclass AND o.oid = r.objid AND f.amopopr >= 16384
    ) AS next (classid, objid)
), owned(relid, owner) AS (
    SELECT r.relid, c.relowner FROM reached r JOIN pg_class c ON c.oid = r.objid WHERE r.classid = 'pg_class'::regclass
    UNION
    SELECT r.relid, p.proowner FROM reached r JOIN pg_proc p ON p.oid = r.objid WHERE r.classid = 'pg_proc'::regclass
    UNION
    SELECT r.relid, o.oprowner FROM reached r JOIN pg_operator o ON o.oid = r.objid WHERE r.classid = 'pg_operator'::regclass
    UNION
    SELECT r.relid, t.typowner FROM reached r JOIN pg_type t ON t.oid = r.objid WHERE r.classid = 'pg_type'::regclass
    UNION
    SELECT r.relid, o.opcowner FROM reached r JOIN pg_opclass o ON o.oid = r.objid WHERE r.classid = 'pg_opclass'::regclass
)
SELECT n.nspname::text, c.relname::text,
       ARRAY(SELECT w.rolname::text FROM owned o JOIN pg_roles w ON w.oid = o.owner
             WHERE o.relid = c.oid AND NOT w.rolsuper AND w.oid <> me.oid ORDER BY 1),
       has_schema_privilege(c.relnamespace, 'USAGE'), has_table_privilege(c.oid, 'SELECT'),
       c.relrowsecurity AND NOT (me.rolsuper OR me.rolbypassrls)
           AND (c.relforcerowsecurity OR NOT pg_has_role(c.relowner, 'USAGE')),
       has_schema_privilege(reader.oid, c.relnamespace, 'USAGE'), has_table_privilege(reader.oid, c.oid, 'SELECT'),
       c.relrowsecurity AND NOT (reader.rolsuper OR reader.rolbypassrls),
       has_schema_privilege(c.relnamespace, 'USAGE WITH GRANT OPTION'), pg_has_role(c.relowner, 'USAGE')
FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_roles me ON me.rolname = current_user
LEFT JOIN pg_roles reader ON reader.rolname = (
    SELECT 'dyda_reader_' || d.oid FROM pg_database d WHERE d.datname = current_database())
WHERE c.oid = ANY (%(relids)s::oid[]) AND c.relkind IN ('r', 'p')
