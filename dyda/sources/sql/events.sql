-- events: schema changes, written into the same log by the same transaction. Needs the right to create event triggers;
-- without it everything still works, by comparing fingerprints on every poll.
-- What always holds: a user's DDL never fails here and never waits longer than 40 ms for a lock; what fails is a gap.

-- The watched relations whose columns are of one of the `changed` types or contain one: in arrays, domains, ranges, rows.
-- Goes from the columns down, by index; from the type up it would read all of pg_attribute on every ALTER.
CREATE OR REPLACE FUNCTION dyda.users_of_types(changed oid[]) RETURNS SETOF oid
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $body$
    WITH RECURSIVE used(root, typid) AS (
        SELECT m.root, a.atttypid
        FROM dyda.member m JOIN pg_attribute a ON a.attrelid = m.relid
        WHERE a.attnum > 0 AND NOT a.attisdropped AND a.atttypid >= 16384
        UNION
        SELECT u.root, inside.typid
        FROM used u JOIN pg_type t ON t.oid = u.typid, LATERAL (
            SELECT t.typbasetype UNION ALL SELECT t.typelem
            UNION ALL SELECT r.rngsubtype FROM pg_range r WHERE t.oid IN (r.rngtypid, r.rngmultitypid)
            UNION ALL SELECT a.atttypid FROM pg_attribute a
                      WHERE t.typrelid <> 0 AND a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped
        ) AS inside (typid)
        WHERE inside.typid >= 16384
    )
    SELECT DISTINCT root FROM used WHERE typid = ANY (changed)
$body$;

CREATE OR REPLACE FUNCTION dyda.tree(watched oid) RETURNS SETOF oid
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $body$
    WITH RECURSIVE below(relid) AS (
        SELECT watched
        UNION
        SELECT i.inhrelid FROM below JOIN pg_inherits i ON i.inhparent = below.relid
    )
    SELECT relid FROM below
$body$;

CREATE OR REPLACE FUNCTION dyda.log_schema_change(watched oid, command text) RETURNS void
LANGUAGE sql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $body$
    INSERT INTO dyda.log (op, root, relid, image)
    SELECT 'S', w.root, w.root, json_build_object(
        'schema', w.schema_name, 'table', w.table_name, 'command', command, 'ddl', left(current_query(), 10000))::text
    FROM dyda.watched w WHERE w.root = watched
$body$;

-- Capture follows the hierarchy below a watched relation, in the transaction that changed it (rule C2).
CREATE OR REPLACE FUNCTION dyda.follow(watched oid) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
    found oid;
BEGIN
    IF EXISTS (SELECT FROM pg_class c WHERE c.oid = watched) THEN
        FOR found IN
            SELECT t FROM dyda.tree(watched) t JOIN pg_class c ON c.oid = t
            WHERE c.relkind IN ('r', 'p')
              AND (NOT EXISTS (SELECT FROM dyda.member m WHERE m.relid = t AND m.root = watched)
                   OR (SELECT count(*) FROM pg_trigger g WHERE g.tgrelid = t AND g.tgenabled = 'A'
                       AND g.tgfoid = 'dyda.capture()'::regprocedure) < 4)
        LOOP
            PERFORM dyda.capture_table(found, watched);
        END LOOP;
    END IF;
    FOR found IN SELECT m.relid FROM dyda.member m WHERE m.root = watched AND m.relid NOT IN (SELECT t FROM dyda.tree(watched) t) LOOP
        PERFORM dyda.release_table(found);
    END LOOP;
END
$body$;

CREATE OR REPLACE FUNCTION dyda.command_ended() RETURNS event_trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '40ms'
AS $body$
#variable_conflict use_variable
DECLARE
    classes oid[];
    types oid[];
    schemas oid[];
    users oid[];
    found record;
BEGIN
    IF current_setting('dyda.quiet', true) = 'on' THEN
        RETURN;
    END IF;
    BEGIN
        SELECT array_agg(c.objid) FILTER (WHERE c.classid = 'pg_class'::regclass),
               array_agg(c.objid) FILTER (WHERE c.classid = 'pg_type'::regclass),
               array_agg(c.objid) FILTER (WHERE c.classid = 'pg_namespace'::regclass)
        INTO classes, types, schemas FROM pg_event_trigger_ddl_commands() c;
        IF TG_TAG LIKE 'ALTER %' THEN
            users := ARRAY(SELECT dyda.users_of_types(coalesce(types, '{}') || ARRAY(
                SELECT c.reltype FROM pg_class c WHERE c.oid = ANY (classes) AND c.reltype <> 0)));
        END IF;
        -- Another table under a watched name: it is watched from now on.
        INSERT INTO dyda.watched (root, schema_name, table_name)
        SELECT DISTINCT c.oid, w.schema_name, w.table_name
        FROM dyda.watched w
        JOIN pg_namespace n ON n.nspname = w.schema_name
        JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = w.table_name
        WHERE (c.oid = ANY (classes) OR n.oid = ANY (schemas)) AND c.oid <> w.root AND c.relkind IN ('r', 'p')
        ON CONFLICT (root) DO UPDATE SET schema_name = excluded.schema_name, table_name = excluded.table_name;
        FOR found IN
            WITH RECURSIVE above(relid) AS (
                SELECT unnest(classes)
                UNION
                SELECT i.inhparent FROM above JOIN pg_inherits i ON i.inhrelid = above.relid
            )
            SELECT w.root FROM dyda.watched w
            WHERE w.root IN (SELECT relid FROM above)
               OR w.root IN (SELECT m.root FROM dyda.member m WHERE m.relid = ANY (classes))
               OR w.root = ANY (users)
               OR EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                          WHERE n.oid = ANY (schemas) AND (c.oid = w.root OR n.nspname = w.schema_name))
               OR EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                          WHERE c.oid = ANY (classes) AND n.nspname = w.schema_name AND c.relname = w.table_name)
        LOOP
            PERFORM dyda.log_schema_change(found.root, TG_TAG);
            PERFORM dyda.follow(found.root);
        END LOOP;
    EXCEPTION WHEN OTHERS THEN
        BEGIN
            PERFORM dyda.mark_gap();
        EXCEPTION WHEN OTHERS THEN
            NULL;  -- mark_gap itself is gone: whoever opens this source finds it missing
        END;
    END;
END
$body$;

CREATE OR REPLACE FUNCTION dyda.object_dropped() RETURNS event_trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '40ms'
AS $body$
#variable_conflict use_variable
DECLARE
    found record;
BEGIN
    IF current_setting('dyda.quiet', true) = 'on' THEN
        RETURN;
    END IF;
    BEGIN
        FOR found IN
            SELECT m.root, m.relid, bool_or(d.objsubid = 0) AS gone
            FROM pg_event_trigger_dropped_objects() d
            JOIN dyda.member m ON m.relid = d.objid AND d.classid = 'pg_class'::regclass
            GROUP BY m.root, m.relid
        LOOP
            PERFORM dyda.log_schema_change(found.root, TG_TAG);
            IF found.gone THEN
                DELETE FROM dyda.member m WHERE m.relid = found.relid;
            END IF;
        END LOOP;
    EXCEPTION WHEN OTHERS THEN
        BEGIN
            PERFORM dyda.mark_gap();
        EXCEPTION WHEN OTHERS THEN
            NULL;  -- DROP SCHEMA dyda ends here: there is nothing left to tell
        END;
    END;
END
$body$;

CREATE OR REPLACE FUNCTION dyda.table_rewritten() RETURNS event_trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '40ms'
AS $body$
DECLARE
    found record;
BEGIN
    BEGIN
        FOR found IN SELECT m.root FROM dyda.member m WHERE m.relid = pg_event_trigger_table_rewrite_oid() LOOP
            PERFORM dyda.log_schema_change(found.root, TG_TAG);
        END LOOP;
    EXCEPTION WHEN OTHERS THEN
        BEGIN
            PERFORM dyda.mark_gap();
        EXCEPTION WHEN OTHERS THEN
            NULL;  -- mark_gap itself is gone: whoever opens this source finds it missing
        END;
    END;
END
$body$;

REVOKE ALL ON FUNCTION
    dyda.users_of_types(oid[]), dyda.tree(oid), dyda.log_schema_change(oid, text), dyda.follow(oid),
    dyda.command_ended(), dyda.object_dropped(), dyda.table_rewritten()
    FROM PUBLIC;
