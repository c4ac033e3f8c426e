-- reader_rights: what users have hung on a view: rights and comments, of the view and of its columns.
-- (kind, column or NULL, role or NULL for PUBLIC, privilege or comment, grantable); the owner's own rights are implied.
WITH view AS (
    SELECT c.oid, c.relacl, c.relowner
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = %(schema)s AND c.relname = %(name)s
), acl AS (
    SELECT NULL::name AS attname, a.* FROM view, LATERAL aclexplode(relacl) AS a
    UNION ALL
    SELECT t.attname, a.*
    FROM view JOIN pg_attribute t ON t.attrelid = view.oid AND NOT t.attisdropped, LATERAL aclexplode(t.attacl) AS a
)
SELECT 'right', attname::text, rolname::text, privilege_type, is_grantable
FROM acl LEFT JOIN pg_roles ON pg_roles.oid = acl.grantee
WHERE acl.grantee <> (SELECT relowner FROM view) AND (acl.grantee = 0 OR rolname IS NOT NULL)
UNION ALL
SELECT 'comment', attname::text, NULL, description, false
FROM view
JOIN pg_description d ON d.objoid = view.oid AND d.classoid = 'pg_class'::regclass
LEFT JOIN pg_attribute t ON t.attrelid = view.oid AND t.attnum = d.objsubid AND d.objsubid > 0
