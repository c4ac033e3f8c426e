-- events: schema changes, written into the same log by the same transaction. Needs the right to create event triggers;
-- without it everything still works, by comparing fingerprints on every poll.
-- What always holds: a user's DDL never fails here and never waits longer than 40 ms for a lock; what fails is a gap.
--
--   table_rewrite --> noted        sql_drop --> observe (ALTER TABLE: noted)        ddl_command_end --> observe, replaced
--
-- An event does not say what a command did. dyda.observe does: it compares the relation with what was known of it
-- (sql/observing.sql).

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

CREATE OR REPLACE FUNCTION dyda.command_ended() RETURNS event_trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '40ms'
AS $body$
#variable_conflict use_variable
DECLARE
    classes oid[];
    made oid[];
    types oid[];
    schemas oid[];
    users oid[];
    noted oid[];
    found record;
BEGIN
    IF current_setting('dyda.quiet', true) = 'on' THEN
        RETURN;
    END IF;
    BEGIN
        SELECT array_agg(c.objid) FILTER (WHERE c.classid = 'pg_class'::regclass),
               array_agg(c.objid) FILTER (WHERE c.classid = 'pg_class'::regclass AND c.command_tag LIKE 'CREATE %'),
               array_agg(c.objid) FILTER (WHERE c.classid = 'pg_type'::regclass),
               array_agg(c.objid) FILTER (WHERE c.classid = 'pg_namespace'::regclass)
        INTO classes, made, types, schemas FROM pg_event_trigger_ddl_commands() c;
        IF TG_TAG LIKE 'ALTER %' THEN
            users := ARRAY(SELECT dyda.users_of_types(coalesce(types, '{}') || ARRAY(
                SELECT c.reltype FROM pg_class c WHERE c.oid = ANY (classes) AND c.reltype <> 0)));
            noted := ARRAY(SELECT jsonb_object_keys(dyda.noted())::oid);
        END IF;
        FOR found IN
            WITH RECURSIVE above(relid) AS (
                SELECT unnest(classes)
                UNION
                SELECT i.inhparent FROM above JOIN pg_inherits i ON i.inhrelid = above.relid
            )
            SELECT w.root,
                   coalesce(w.root = ANY (classes), false) OR coalesce(w.root = ANY (users), false)
                   OR coalesce(w.root = ANY (noted), false)
                   OR TG_TAG LIKE '%SUBSCRIPTION'  -- which does not say whose rows it brings
                   OR w.root IN (SELECT i.inhrelid FROM pg_inherits i WHERE i.inhparent = ANY (classes))
                   OR EXISTS (SELECT FROM pg_class c WHERE c.relnamespace = ANY (schemas) AND c.oid = w.root) AS wholly,
                   w.root IN (SELECT relid FROM above)
                   OR w.root IN (SELECT m.root FROM dyda.member m WHERE m.relid = ANY (classes)) AS partly
            FROM dyda.watched w
        LOOP
            IF found.wholly THEN
                PERFORM dyda.observe(found.root, TG_TAG, made, NULL);
            ELSIF found.partly THEN  -- a command on a part is about that and what is below it
                PERFORM dyda.observe(found.root, TG_TAG, made, ARRAY(SELECT dyda.tree(c) FROM unnest(classes) c));
            END IF;
        END LOOP;
        -- A name that a watched table left in this very transaction counts as asked for: its rename may be pending.
        FOR found IN
            WITH left_names AS (
                SELECT DISTINCT ON (1, 2) l.image::jsonb #>> '{before,schema}' AS schema_name,
                       l.image::jsonb #>> '{before,table}' AS table_name, l.root
                FROM dyda.log l WHERE l.xid = pg_current_xact_id() AND l.op IN ('S', 'T') AND l.op = 'S'
                ORDER BY 1, 2, l.seq
            )
            SELECT h.schema_name, h.table_name, h.root, c.oid
            FROM (SELECT * FROM dyda.holder
                  UNION ALL
                  SELECT * FROM left_names l WHERE (l.schema_name, l.table_name) NOT IN
                      (SELECT k.schema_name, k.table_name FROM dyda.holder k)) AS h
            JOIN pg_namespace n ON n.nspname = h.schema_name
            JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = h.table_name
            WHERE (c.oid = ANY (classes) OR n.oid = ANY (schemas)) AND c.oid <> h.root
        LOOP
            PERFORM dyda.replaced(found.schema_name, found.table_name, found.root, found.oid, TG_TAG);
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

-- Tables, columns, and whatever hangs on a table and is named by it: defaults, constraints, triggers.
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
            SELECT m.root, array_agg(m.relid) AS touched
            FROM (SELECT d.objid FROM pg_event_trigger_dropped_objects() d WHERE d.classid = 'pg_class'::regclass
                  UNION
                  SELECT c.oid
                  FROM pg_event_trigger_dropped_objects() d
                  JOIN pg_namespace n ON n.nspname = d.address_names[1]
                  JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = d.address_names[2]
                  WHERE d.classid <> 'pg_class'::regclass AND cardinality(d.address_names) = 3) AS dropped (relid)
            JOIN dyda.member m USING (relid)
            GROUP BY m.root
        LOOP
            IF TG_TAG = 'ALTER TABLE' THEN  -- dyda.command_ended follows, and sees the whole command
                PERFORM dyda.note(jsonb_build_object(found.root, 0) || dyda.noted());
            ELSE
                PERFORM dyda.observe(found.root, TG_TAG, NULL, found.touched);
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

-- Comes in the middle of a command, before the rows move: noted for dyda.observe, which runs at its end.
CREATE OR REPLACE FUNCTION dyda.table_rewritten() RETURNS event_trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '40ms'
AS $body$
DECLARE
    noted jsonb;
    found record;
BEGIN
    BEGIN
        FOR found IN SELECT m.root FROM dyda.member m WHERE m.relid = pg_event_trigger_table_rewrite_oid() LOOP
            noted := dyda.noted();
            PERFORM dyda.note(noted || jsonb_build_object(
                found.root, coalesce((noted ->> found.root::text)::integer, 0) | pg_event_trigger_table_rewrite_reason()));
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
    dyda.users_of_types(oid[]), dyda.command_ended(), dyda.object_dropped(), dyda.table_rewritten()
    FROM PUBLIC;
