-- remove: everything of DyDa's in schema dyda, and the schema if nothing else is in it. Parameter: functions (their names).
DROP TABLE IF EXISTS dyda.log, dyda.mark, dyda.consumer, dyda.watched, dyda.holder, dyda.member, dyda.described, dyda.identity;
DROP SEQUENCE IF EXISTS dyda.log_sequence, dyda.gap, dyda.gap_until, dyda.key, dyda.measure_at, dyda.home_number,
    dyda.flushed;
DO $do$
DECLARE
    function regprocedure;
BEGIN
    FOR function IN
        SELECT p.oid FROM pg_proc p WHERE p.pronamespace = to_regnamespace('dyda') AND p.proname = ANY (
            %(functions)s::text[] || ARRAY['read', 'shape', 'users_of_types', 'log_schema_change'])  -- older DyDas' too
    LOOP
        EXECUTE format('DROP FUNCTION %%s', function);
    END LOOP;
    IF to_regnamespace('dyda') IS NOT NULL
       AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.refclassid = 'pg_namespace'::regclass
                       AND d.refobjid = to_regnamespace('dyda')) THEN
        DROP SCHEMA dyda;
    END IF;
END
$do$;
