-- readable: lets the reader role read a table, or no longer. Run by attach, before sql/capture.sql, whose functions call it
-- with the rights of the role that attached. Does nothing without a reader role, and locks nothing if nothing changes.
CREATE OR REPLACE FUNCTION dyda.let_read(relation oid, allowed boolean) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
    reader oid;
    found record;
BEGIN
    SELECT p.proowner INTO reader FROM pg_proc p JOIN pg_roles r ON r.oid = p.proowner
    WHERE p.oid = to_regprocedure('dyda.read(text)') AND r.rolname LIKE 'dyda\_reader\_%';
    SELECT c.oid, c.relacl, c.relnamespace, c.relname, n.nspname INTO found
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = relation;
    IF reader IS NULL OR found.oid IS NULL THEN
        RETURN;
    END IF;
    IF NOT allowed THEN
        IF EXISTS (SELECT FROM aclexplode(found.relacl) a WHERE a.grantee = reader) THEN
            EXECUTE format('REVOKE SELECT ON %I.%I FROM %I', found.nspname, found.relname, pg_get_userbyid(reader));
        END IF;
        RETURN;
    END IF;
    IF NOT has_table_privilege(reader, found.oid, 'SELECT') THEN
        EXECUTE format('GRANT SELECT ON %I.%I TO %I', found.nspname, found.relname, pg_get_userbyid(reader));
    END IF;
    IF NOT has_schema_privilege(reader, found.relnamespace, 'USAGE') THEN
        EXECUTE format('GRANT USAGE ON SCHEMA %I TO %I', found.nspname, pg_get_userbyid(reader));
    END IF;
EXCEPTION WHEN insufficient_privilege OR invalid_grant_operation OR undefined_object OR internal_error OR lock_not_available THEN
    NULL;  -- capture works all the same; reading will report what is missing
END
$body$;

REVOKE ALL ON FUNCTION dyda.let_read(oid, boolean) FROM PUBLIC;
