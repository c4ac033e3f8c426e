-- remove: everything of DyDa's in schema dyda, and the schema if nothing else is in it (a warehouse may share it).
DROP FUNCTION IF EXISTS
    dyda.capture(), dyda.capture_table(oid, oid), dyda.release_table(oid), dyda.suspend_table(oid),
    dyda.drop_triggers(oid, boolean), dyda.keep_member(oid, oid), dyda.mark_gap(), dyda.be_quiet(), dyda.is_quiet(), dyda.is_copy(),
    dyda.root_of(oid, bytea), dyda.shape(oid, oid),
    dyda.places(), dyda.places(oid, oid), dyda.measure(), dyda.capturing(oid, oid), dyda.names_now(oid), dyda.seal(text),
    dyda.noted(), dyda.note(jsonb),
    dyda.columns(oid[]), dyda.fingerprints(oid[]), dyda.users_of_types(oid[]),
    dyda.tables_with_types(oid[]), dyda.roots_of(oid[]), dyda.former_root(oid), dyda.is_resting(), dyda.obstacles(oid),
    dyda.members(oid), dyda.keep_description(oid, jsonb, boolean), dyda.asked(oid), dyda.shown_query(), dyda.tree(oid), dyda.shown(oid), dyda.shown(text),
    dyda.describe(oid), dyda.follow(oid, oid[]), dyda.follow(oid, oid[], oid[]), dyda.look_at(oid, oid[]), dyda.lasting(oid), dyda.remember(oid),
    dyda.observe(oid, text, oid[], oid[]), dyda.replaced(text, text, oid, oid, text),
    dyda.log_schema_change(oid, text), dyda.follow(oid),
    dyda.command_ended(), dyda.object_dropped(), dyda.table_rewritten(),
    dyda.state(), dyda.entries(pg_snapshot), dyda.schema_entries(pg_snapshot), dyda.changed_relations(),
    dyda.schema_changed(pg_snapshot), dyda.watched_relations(),
    dyda.acknowledge(text, pg_snapshot), dyda.shrink(bigint),
    dyda.read(text), dyda.let_read(oid, boolean),
    dyda.home(), dyda.here(), dyda.standing(), dyda.leave_mark(text, text), dyda.forward_gap();
DROP TABLE IF EXISTS dyda.log, dyda.mark, dyda.consumer, dyda.watched, dyda.holder, dyda.member, dyda.described;
DROP FUNCTION IF EXISTS dyda.log_changed();
DROP SEQUENCE IF EXISTS dyda.log_sequence, dyda.gap, dyda.gap_until, dyda.key, dyda.measure_at, dyda.home_number;
DO $do$
BEGIN
    IF to_regnamespace('dyda') IS NOT NULL
       AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.refclassid = 'pg_namespace'::regclass
                       AND d.refobjid = to_regnamespace('dyda')) THEN
        DROP SCHEMA dyda;
    END IF;
END
$do$;
