-- leftovers: event triggers and tables that still carry something of DyDa's. Reads pg_catalog.
SELECT
    ARRAY(SELECT evtname::text FROM pg_event_trigger
          WHERE evtname IN ('dyda_command_ended', 'dyda_object_dropped', 'dyda_table_rewritten')),
    ARRAY(SELECT DISTINCT t.tgrelid FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid
          JOIN pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname = 'dyda' AND p.proname = 'capture')
