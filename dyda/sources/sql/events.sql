-- events: schema changes, written into the same log by the same transaction. Without the right to create event triggers
-- everything still works, by comparing fingerprints on every poll.
-- Always true: a user's DDL never waits longer than 40 ms for a lock; what fails is a gap (or the command fails, see
-- dyda.mark_gap). No table is read that other transactions' events write: they might be SERIALIZABLE (dyda.keep_member).
--
--   table_rewrite --> noted        sql_drop --> observe (ALTER TABLE: noted)        ddl_command_end --> observe, replaced
--
-- An event does not say what a command did: dyda.observe finds out by comparing (sql/observing.sql).

DROP FUNCTION IF EXISTS dyda.users_of_types(oid[]);  -- an older DyDa's

-- Nothing is observed in a copy of the database that was attached, nor what we do ourselves.
CREATE OR REPLACE FUNCTION dyda.is_resting() RETURNS boolean
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
    RETURN dyda.is_copy() OR dyda.is_quiet();
END
$body$;

-- The tables with columns of one of the `changed` types, or of one that contains it: arrays, domains, ranges, rows. Goes up
-- from the types, by the index of what depends on them.
CREATE OR REPLACE FUNCTION dyda.tables_with_types(changed oid[]) RETURNS SETOF oid
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
    RETURN QUERY
        WITH RECURSIVE users(typid, relid) AS (
            SELECT unnest(changed), 0::oid
            UNION
            SELECT CASE WHEN d.classid = 'pg_type'::regclass THEN d.objid ELSE c.reltype END, coalesce(c.oid, 0)
            FROM users u
            JOIN pg_depend d ON d.refclassid = 'pg_type'::regclass AND d.refobjid = u.typid
            LEFT JOIN pg_class c ON d.classid = 'pg_class'::regclass AND c.oid = d.objid
            WHERE u.typid <> 0 AND (d.classid = 'pg_type'::regclass OR d.objsubid > 0)
        )
        SELECT DISTINCT u.relid FROM users u WHERE u.relid <> 0;
END
$body$;

-- The watched relations that these tables are captured for.
CREATE OR REPLACE FUNCTION dyda.roots_of(relations oid[]) RETURNS oid[]
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
    RETURN ARRAY(SELECT DISTINCT dyda.root_of(t.tgrelid, t.tgargs) FROM pg_trigger t
                 WHERE t.tgrelid = ANY (relations) AND t.tgfoid = 'dyda.capture()'::regprocedure);
END
$body$;

CREATE OR REPLACE FUNCTION dyda.command_ended() RETURNS event_trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '40ms'
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET jit = off
AS $body$
#variable_conflict use_variable
DECLARE
    noted jsonb;
    classes oid[];
    made oid[];
    types oid[];
    schemas oid[];
    above oid[];
    next oid[];
    below oid[];
    wholly oid[];
    partly oid[];
    is_foreign boolean;
    found record;
BEGIN
    BEGIN
        -- Most commands do not concern us: small queries find that out, and a session keeps their plans. Commands about schema
        -- dyda itself are ours, and may be changing the owner of what is needed below.
        SELECT coalesce(array_agg(c.objid) FILTER (WHERE c.classid = 'pg_class'::regclass), '{}'),
               array_agg(c.objid) FILTER (WHERE c.classid = 'pg_class'::regclass AND c.command_tag LIKE 'CREATE %'),
               coalesce(array_agg(c.objid) FILTER (WHERE c.classid = 'pg_type'::regclass), '{}'),
               coalesce(array_agg(c.objid) FILTER (WHERE c.classid = 'pg_namespace'::regclass
                                                   AND c.command_tag = 'ALTER SCHEMA'), '{}')
        INTO classes, made, types, schemas FROM pg_event_trigger_ddl_commands() c
        WHERE c.object_identity IS DISTINCT FROM 'dyda' AND (c.schema_name IS DISTINCT FROM 'dyda'
              OR EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = c.objid AND t.tgname = 'dyda_truncate'));  -- moved there
        IF classes || types || schemas = '{}' AND TG_TAG NOT LIKE '%SUBSCRIPTION' THEN
            RETURN;
        END IF;
        IF dyda.is_resting() THEN
            RETURN;
        END IF;
        IF TG_TAG LIKE '%SUBSCRIPTION' THEN  -- which does not say into which tables it writes
            FOR found IN
                SELECT DISTINCT dyda.root_of(t.tgrelid, t.tgargs) AS root FROM pg_trigger t
                WHERE t.tgfoid = 'dyda.capture()'::regprocedure ORDER BY root
            LOOP
                PERFORM dyda.observe(found.root, TG_TAG, NULL, NULL);
            END LOOP;
            RETURN;
        END IF;
        above := classes;
        next := classes;
        WHILE next <> '{}' LOOP
            next := ARRAY(SELECT DISTINCT i.inhparent FROM pg_inherits i
                          WHERE i.inhrelid = ANY (next) AND NOT i.inhparent = ANY (above));
            above := above || next;
        END LOOP;
        below := ARRAY(SELECT i.inhrelid FROM pg_inherits i WHERE i.inhparent = ANY (classes));
        -- A command on a part is about that and what is below it. A watched relation may have become a part itself.
        SELECT coalesce(array_agg(t.root) FILTER (WHERE t.relid = ANY (above)), '{}'),
               coalesce(array_agg(t.root) FILTER (WHERE t.relid = ANY (below) AND t.relid = t.root), '{}')
        INTO partly, wholly
        FROM (SELECT DISTINCT t.tgrelid, dyda.root_of(t.tgrelid, t.tgargs) FROM pg_trigger t
              WHERE t.tgrelid = ANY (above || below) AND t.tgfoid = 'dyda.capture()'::regprocedure) AS t (relid, root);
        IF TG_TAG LIKE 'ALTER %' THEN
            SELECT types || coalesce(array_agg(c.reltype) FILTER (WHERE c.reltype <> 0), '{}'),
                   coalesce(bool_or(c.relkind = 'f'), false)
            INTO types, is_foreign FROM pg_class c WHERE c.oid = ANY (classes);
            IF is_foreign THEN  -- it may have been a part until now
                partly := partly || ARRAY(SELECT m.root FROM dyda.member m WHERE m.relid = ANY (classes));
            END IF;
            IF EXISTS (SELECT FROM pg_depend d WHERE d.refclassid = 'pg_type'::regclass AND d.refobjid = ANY (
                           types || ARRAY(SELECT t.typarray FROM pg_type t WHERE t.oid = ANY (types)))
                         AND (d.classid = 'pg_class'::regclass AND d.objsubid > 0
                              OR d.classid = 'pg_type'::regclass AND d.deptype <> 'i')) THEN
                wholly := wholly || dyda.roots_of(ARRAY(SELECT dyda.tables_with_types(types)));
            END IF;
            wholly := wholly || ARRAY(SELECT jsonb_object_keys(dyda.noted() -> 'roots')::oid);
        END IF;
        IF schemas <> '{}' THEN
            classes := classes || ARRAY(SELECT c.oid FROM pg_class c WHERE c.relnamespace = ANY (schemas));
            wholly := wholly || ARRAY(SELECT root FROM unnest(dyda.roots_of(classes)) root WHERE root = ANY (classes));
        END IF;
        IF partly <> '{}' OR wholly <> '{}' THEN
            FOR found IN
                SELECT root, bool_or(root = ANY (wholly) OR root = ANY (classes)) AS is_whole
                FROM unnest(partly || wholly) root WHERE root <> 0 GROUP BY root ORDER BY root
            LOOP
                PERFORM dyda.observe(found.root, TG_TAG, made,
                                     CASE WHEN NOT found.is_whole THEN ARRAY(SELECT dyda.tree(c) FROM unnest(classes) c) END);
            END LOOP;
        END IF;
        -- A name that a watched table gave up in this very transaction counts as asked for: its rename may be pending.
        noted := dyda.noted();
        FOR found IN
            SELECT n.nspname::text AS schema_name, c.relname::text AS table_name, c.oid,
                   -- by its index, of which the collation is a part: one row is read, and so one locked (SERIALIZABLE)
                   coalesce((SELECT h.root FROM dyda.holder h WHERE h.schema_name = n.nspname::text COLLATE "default"
                             AND h.table_name = c.relname::text COLLATE "default"),
                            (noted -> 'left' ->> format('%I.%I', n.nspname, c.relname))::oid) AS holder
            FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
            WHERE c.oid = ANY (classes)
        LOOP
            IF found.holder <> found.oid THEN
                PERFORM dyda.replaced(found.schema_name, found.table_name, found.holder, found.oid, TG_TAG);
            END IF;
        END LOOP;
    EXCEPTION WHEN OTHERS THEN
        IF to_regprocedure('dyda.mark_gap()') IS NOT NULL THEN  -- otherwise opening the source will find it missing
            PERFORM dyda.mark_gap();
        END IF;
    END;
END
$body$;

-- Tables, columns, and whatever belongs to a table and has its name: defaults, constraints, triggers.
CREATE OR REPLACE FUNCTION dyda.object_dropped() RETURNS event_trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '40ms'
SET plan_cache_mode = force_generic_plan
SET jit = off
AS $body$
#variable_conflict use_variable
DECLARE
    gone oid[];
    touched oid[];
    noted jsonb;
    found record;
BEGIN
    BEGIN
        IF dyda.is_resting() THEN
            RETURN;
        END IF;
        -- The triggers of dropped tables show that they were captured; foreign tables never had one.
        SELECT array_agg(DISTINCT d.objid) FILTER (
                   WHERE d.classid = 'pg_class'::regclass AND d.objsubid = 0
                     AND (d.object_type = 'foreign table' OR d.is_captured)),
               array_agg(DISTINCT coalesce(c.oid, d.objid)) FILTER (WHERE c.oid IS NOT NULL OR d.objsubid <> 0)
        INTO gone, touched
        FROM (
            SELECT d.*, (d.schema_name, d.object_name) IN (
                       SELECT t.address_names[1], t.address_names[2] FROM pg_event_trigger_dropped_objects() t
                       WHERE t.classid = 'pg_trigger'::regclass AND t.address_names[3] LIKE 'dyda%') AS is_captured
            FROM pg_event_trigger_dropped_objects() d
        ) AS d
        LEFT JOIN (pg_namespace n JOIN pg_class c ON c.relnamespace = n.oid)
            ON n.nspname = d.address_names[1] AND c.relname = d.address_names[2]
           AND d.classid <> 'pg_class'::regclass AND cardinality(d.address_names) = 3;  -- a column tells its table
        FOR found IN
            SELECT t.root, array_agg(t.relid) AS relids
            FROM (SELECT DISTINCT dyda.root_of(t.tgrelid, t.tgargs) AS root, t.tgrelid AS relid FROM pg_trigger t
                  WHERE t.tgrelid = ANY (touched) AND t.tgfoid = 'dyda.capture()'::regprocedure
                  UNION
                  SELECT dyda.former_root(g), g FROM unnest(gone) g) AS t
            WHERE t.root <> 0
            GROUP BY t.root ORDER BY t.root
        LOOP
            IF TG_TAG = 'ALTER TABLE' THEN  -- dyda.command_ended follows, and sees the whole command
                noted := dyda.noted();
                PERFORM dyda.note(noted || jsonb_build_object(
                    'roots', jsonb_build_object(found.root, 0) || coalesce(noted -> 'roots', '{}')));
            ELSE
                PERFORM dyda.observe(found.root, TG_TAG, NULL, found.relids);
            END IF;
        END LOOP;
    EXCEPTION WHEN OTHERS THEN
        IF to_regprocedure('dyda.mark_gap()') IS NOT NULL THEN  -- DROP SCHEMA dyda ends here: nothing is left to record it
            PERFORM dyda.mark_gap();
        END IF;
    END;
END
$body$;

-- The watched relation that a dropped table was part of; null: none.
CREATE OR REPLACE FUNCTION dyda.former_root(relation oid) RETURNS oid
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
    former oid;
BEGIN
    IF current_setting('transaction_isolation') <> 'serializable' THEN  -- see dyda.keep_member
        SELECT m.root INTO former FROM dyda.member m WHERE m.relid = relation;
    ELSE
        INSERT INTO dyda.member AS m (relid, root) VALUES (relation, 0)
        ON CONFLICT (relid) DO UPDATE SET relid = m.relid RETURNING m.root INTO former;
    END IF;
    RETURN former;
END
$body$;

-- Comes in the middle of a command, before the rows move: noted for dyda.observe, which runs at its end.
CREATE OR REPLACE FUNCTION dyda.table_rewritten() RETURNS event_trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '40ms'
AS $body$
DECLARE
    noted jsonb;
    root oid;
BEGIN
    BEGIN
        IF dyda.is_resting() THEN
            RETURN;
        END IF;
        FOREACH root IN ARRAY dyda.roots_of(ARRAY[pg_event_trigger_table_rewrite_oid()]) LOOP
            noted := dyda.noted();
            PERFORM dyda.note(noted || jsonb_build_object('roots', coalesce(noted -> 'roots', '{}') || jsonb_build_object(
                root, coalesce((noted #>> ARRAY['roots', root::text])::integer, 0) | pg_event_trigger_table_rewrite_reason())));
        END LOOP;
    EXCEPTION WHEN OTHERS THEN
        IF to_regprocedure('dyda.mark_gap()') IS NOT NULL THEN  -- otherwise opening the source will find it missing
            PERFORM dyda.mark_gap();
        END IF;
    END;
END
$body$;
