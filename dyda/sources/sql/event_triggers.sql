-- event_triggers: for DDL in every session, also under session_replication_role = replica. Idempotent.
DO $do$
DECLARE
    name text;
BEGIN
    IF EXISTS (SELECT FROM pg_event_trigger
               WHERE evtname = 'dyda_command_ended' AND 'ALTER SUBSCRIPTION' <> ALL (coalesce(evttags, '{}'))) THEN
        DROP EVENT TRIGGER dyda_command_ended;  -- an older DyDa's
    END IF;
    IF NOT EXISTS (SELECT FROM pg_event_trigger WHERE evtname = 'dyda_command_ended') THEN
        CREATE EVENT TRIGGER dyda_command_ended ON ddl_command_end
            WHEN TAG IN ('ALTER TABLE', 'CREATE TABLE', 'CREATE TABLE AS', 'SELECT INTO', 'CREATE FOREIGN TABLE',
                         'ALTER FOREIGN TABLE', 'IMPORT FOREIGN SCHEMA', 'ALTER TYPE', 'ALTER DOMAIN', 'CREATE SCHEMA',
                         'ALTER SCHEMA', 'CREATE VIEW', 'ALTER VIEW', 'CREATE MATERIALIZED VIEW',
                         'ALTER MATERIALIZED VIEW', 'CREATE SEQUENCE', 'ALTER SEQUENCE',
                         'ALTER INDEX',  -- which renames tables too
                         'CREATE SUBSCRIPTION', 'ALTER SUBSCRIPTION', 'DROP SUBSCRIPTION')
            EXECUTE FUNCTION dyda.command_ended();
    END IF;
    IF NOT EXISTS (SELECT FROM pg_event_trigger WHERE evtname = 'dyda_object_dropped') THEN
        CREATE EVENT TRIGGER dyda_object_dropped ON sql_drop EXECUTE FUNCTION dyda.object_dropped();
    END IF;
    IF NOT EXISTS (SELECT FROM pg_event_trigger WHERE evtname = 'dyda_table_rewritten') THEN
        CREATE EVENT TRIGGER dyda_table_rewritten ON table_rewrite EXECUTE FUNCTION dyda.table_rewritten();
    END IF;
    FOR name IN
        SELECT e.evtname FROM pg_event_trigger e WHERE e.evtenabled <> 'A'
          AND e.evtname IN ('dyda_command_ended', 'dyda_object_dropped', 'dyda_table_rewritten')
    LOOP
        EXECUTE format('ALTER EVENT TRIGGER %I ENABLE ALWAYS', name);
    END LOOP;
END
$do$;
