-- guarding: how we notice that somebody changed the log, or that this is not the database that was attached. Run by attach,
-- after sql/capture.sql. Idempotent: correct triggers are left alone, for creating one locks the log.

-- Which database this is, whatever its name: a restored dump contains our tables, with transaction ids and oids that mean
-- nothing there.
CREATE OR REPLACE FUNCTION dyda.home() RETURNS text
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
    RETURN (SELECT s.system_identifier::text FROM pg_control_system() s) || '/'
        || (SELECT d.oid::text FROM pg_database d WHERE d.datname = current_database());
EXCEPTION WHEN insufficient_privilege THEN
    RETURN (SELECT d.oid::text FROM pg_database d WHERE d.datname = current_database());
END
$body$;

-- The same as dyda.home_number keeps it.
CREATE OR REPLACE FUNCTION dyda.here() RETURNS bigint
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
    RETURN 1 + ('x' || left(md5(dyda.home()), 15))::bit(60)::bigint;
END
$body$;

-- Whether this is the database that was attached, and the marks that it has.
CREATE OR REPLACE FUNCTION dyda.standing(OUT at_home boolean, OUT marks text[])
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $body$
    SELECT coalesce((SELECT c.home = dyda.home() FROM dyda.consumer c), false),
           ARRAY(SELECT m.mark FROM dyda.mark m)
$body$;

-- A new mark. Deletes those before `known`, the last one that an installation has recorded; later ones another installation may
-- have recorded. Failed units leave theirs behind, so only about a hundred are kept.
CREATE OR REPLACE FUNCTION dyda.leave_mark(known text, new text) RETURNS void
LANGUAGE sql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $body$
    DELETE FROM dyda.mark m WHERE m.number < (SELECT k.number FROM dyda.mark k WHERE k.mark = known)
        OR (m.number < (SELECT k.number FROM dyda.mark k ORDER BY k.number DESC LIMIT 1 OFFSET 100)
            AND m.mark IS DISTINCT FROM known);
    INSERT INTO dyda.mark (mark) VALUES (new);
$body$;

-- If anybody but dyda.acknowledge deletes entries, their rows are lost: a gap.
CREATE OR REPLACE FUNCTION dyda.log_changed() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
    IF NOT dyda.is_quiet() THEN
        PERFORM dyda.mark_gap();
    END IF;
    RETURN NULL;
END
$body$;

DO $do$
DECLARE
    event text;
BEGIN
    FOREACH event IN ARRAY ARRAY['DELETE', 'UPDATE', 'TRUNCATE'] LOOP
        IF NOT EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = 'dyda.log'::regclass AND t.tgenabled = 'A'
                       AND t.tgname = 'guard_' || lower(event) AND t.tgfoid = 'dyda.log_changed()'::regprocedure) THEN
            EXECUTE format('DROP TRIGGER IF EXISTS guard_%s ON dyda.log', lower(event));
            EXECUTE format('CREATE TRIGGER guard_%s AFTER %s ON dyda.log FOR EACH STATEMENT'
                           ' EXECUTE FUNCTION dyda.log_changed()', lower(event), event);
            EXECUTE format('ALTER TABLE dyda.log ENABLE ALWAYS TRIGGER guard_%s', lower(event));
        END IF;
    END LOOP;
    -- In another database than the one attached, everything about transactions and oids is void.
    IF EXISTS (SELECT FROM dyda.consumer c WHERE c.home <> dyda.home()) THEN
        PERFORM dyda.be_quiet();
        DELETE FROM dyda.log;
        DELETE FROM dyda.watched;
        DELETE FROM dyda.holder;
        DELETE FROM dyda.member;
        DELETE FROM dyda.described;
        DELETE FROM dyda.mark;
        PERFORM dyda.forward_gap();
    END IF;
    UPDATE dyda.consumer SET home = dyda.home() WHERE home IS DISTINCT FROM dyda.home();
    IF pg_sequence_last_value('dyda.home_number'::regclass) IS DISTINCT FROM dyda.here() THEN
        PERFORM setval('dyda.home_number', dyda.here());
    END IF;
END
$do$;
