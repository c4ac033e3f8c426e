-- private: nobody else may use what DyDa keeps at a source unless it is granted. Run by attach, after all functions exist.
-- Parameter: functions (their names).
REVOKE ALL ON TABLE dyda.log, dyda.consumer, dyda.watched, dyda.holder, dyda.member, dyda.described, dyda.mark, dyda.identity FROM PUBLIC;
REVOKE ALL ON SEQUENCE dyda.log_sequence, dyda.gap, dyda.gap_until, dyda.key, dyda.measure_at, dyda.home_number, dyda.flushed
    FROM PUBLIC;
DO $do$
DECLARE
    function regprocedure;
BEGIN
    FOR function IN
        SELECT p.oid FROM pg_proc p
        WHERE p.pronamespace = 'dyda'::regnamespace AND p.proname = ANY (%(functions)s::text[])
          AND has_function_privilege('public', p.oid, 'EXECUTE')
    LOOP
        EXECUTE format('REVOKE ALL ON FUNCTION %%s FROM PUBLIC', function);
    END LOOP;
END
$do$;
