-- reader_role: the role that dyda.read belongs to, and the session's own. Parameters: prefix, give (the right to give it
-- things), body (of dyda.read). Reads pg_catalog. One row: its name, its oid or null, the session's role; whether that may give
-- it things, may create roles, is a superuser; what it can do beyond reading; who can act as it and not as the session's role;
-- whether dyda.read is its own and as we wrote it, whether the session may call that; whether the session's role can only read.
SELECT %(prefix)s || d.oid, r.oid, me.rolname::text,
       coalesce(pg_has_role(r.oid, 'USAGE') AND pg_has_role(r.oid, %(give)s), false),
       me.rolsuper OR me.rolcreaterole, me.rolsuper,
       array_remove(ARRAY[
           CASE WHEN r.rolcanlogin THEN 'can log in' END,
           CASE WHEN r.rolsuper OR r.rolcreaterole OR r.rolcreatedb OR r.rolreplication THEN 'has rights of its own' END,
           CASE WHEN EXISTS (SELECT FROM pg_auth_members a WHERE a.member = r.oid) THEN 'is a member of other roles' END,
           CASE WHEN EXISTS (SELECT FROM pg_shdepend s WHERE s.refclassid = 'pg_authid'::regclass AND s.refobjid = r.oid
                             AND s.deptype = 'o'
                             AND (s.classid, s.objid) IS DISTINCT FROM ('pg_proc'::regclass::oid, p.oid))
                THEN 'owns things' END], NULL),
       ARRAY(SELECT m.rolname::text FROM pg_roles m WHERE m.rolcanlogin AND NOT m.rolsuper
             AND pg_has_role(m.oid, r.oid, 'MEMBER') AND NOT pg_has_role(m.oid, me.oid, 'MEMBER') ORDER BY 1),
       coalesce(p.proowner = r.oid AND p.prosecdef AND p.prosrc = %(body)s, false),
       coalesce(has_function_privilege(p.oid, 'EXECUTE')
                AND has_schema_privilege(to_regnamespace('dyda')::oid, 'USAGE'), false),
       NOT (me.rolsuper OR me.rolcreaterole OR me.rolcreatedb OR me.rolreplication)
           AND NOT EXISTS (SELECT FROM pg_auth_members a WHERE a.member = me.oid)
           AND NOT EXISTS (SELECT FROM pg_shdepend s WHERE s.refclassid = 'pg_authid'::regclass AND s.refobjid = me.oid
                           AND s.deptype = 'o')
FROM pg_database d
JOIN pg_roles me ON me.rolname = current_user
LEFT JOIN pg_roles r ON r.rolname = %(prefix)s || d.oid
LEFT JOIN pg_proc p ON p.pronamespace = to_regnamespace('dyda') AND p.proname = 'read' AND p.proargtypes[0] = 'text'::regtype
                    AND p.pronargs = 1  -- by its name it can be looked up only by those who may use the schema
WHERE d.datname = current_database()
