-- observing: what a watched relation is like, what it was like when last looked at, and what is logged if that differs.
-- Called by the event triggers (sql/events.sql), inside the transaction that changed it, and by attach.

DROP FUNCTION IF EXISTS  -- an older DyDa's
    dyda.log_schema_change(oid, text), dyda.follow(oid), dyda.follow(oid, oid[]);

-- What the events of a transaction keep for later ones; sealed, because anybody could set this parameter.
--   roots   left by earlier events of a command for its last one: root -> why it was rewritten (0: it was not)
--   left    names that watched relations gave up -> root
--   ddl     what may be shown of the last query, by its hash
CREATE OR REPLACE FUNCTION dyda.noted() RETURNS jsonb
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
    kept text := coalesce(current_setting('dyda.noted', true), '');
BEGIN
    IF kept = '' THEN
        RETURN '{}';
    END IF;
    RETURN CASE WHEN left(kept, 32) = dyda.seal(substr(kept, 33)) THEN substr(kept, 33) ELSE '{}' END::jsonb;
END
$body$;

CREATE OR REPLACE FUNCTION dyda.note(what jsonb) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
    PERFORM pg_current_xact_id();
    PERFORM set_config('dyda.noted', dyda.seal(what::text) || what::text, true);
END
$body$;

CREATE OR REPLACE FUNCTION dyda.tree(watched oid) RETURNS SETOF oid
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
    RETURN QUERY
        WITH RECURSIVE below(relid) AS (
            SELECT watched
            UNION
            SELECT i.inhrelid FROM below JOIN pg_inherits i ON i.inhparent = below.relid
        )
        SELECT relid FROM below;
END
$body$;

-- What prevents capturing a watched relation's rows. foreign_tables: those below it. suspended: the tables above those, whose
-- rows may go there; PostgreSQL does not collect such rows. temporary: tables of sessions below it, whose rows only one session
-- sees, and which vanish with it without an event.
CREATE OR REPLACE FUNCTION dyda.obstacles(
    watched oid, OUT foreign_tables oid[], OUT suspended oid[], OUT temporary oid[])
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
    members oid[] := ARRAY(SELECT dyda.tree(watched));
BEGIN
    SELECT coalesce(array_agg(c.oid) FILTER (WHERE c.relkind = 'f'), '{}'),
           coalesce(array_agg(c.oid) FILTER (WHERE c.relpersistence = 't'), '{}')
    INTO foreign_tables, temporary FROM pg_class c WHERE c.oid = ANY (members);
    suspended := '{}';
    IF foreign_tables <> '{}' THEN
        suspended := ARRAY(
            WITH RECURSIVE above(relid) AS (
                SELECT unnest(foreign_tables)
                UNION
                SELECT i.inhparent FROM above JOIN pg_inherits i ON i.inhrelid = above.relid
            )
            SELECT relid FROM above WHERE relid = ANY (members) AND NOT relid = ANY (foreign_tables));
    END IF;
END
$body$;

CREATE OR REPLACE FUNCTION dyda.shown(relation oid) RETURNS text
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
    RETURN (SELECT format('%I.%I', n.nspname, c.relname) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
            WHERE c.oid = relation);
END
$body$;

-- What may be shown of a query: its DDL of tables, views, types and schemas, in one line and without comments. Anything else
-- sent with it may hold a password (ALTER ROLE, a function's argument, rows), and so may every literal (the key in USING
-- decrypt(a, 'key')). Where quotes cannot be told from what they enclose (backslashes, $$, nested comments, the end of what is
-- read), nothing is shown from that statement on.
CREATE OR REPLACE FUNCTION dyda.shown(query text) RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET standard_conforming_strings = on
AS $body$
    WITH words AS (
        SELECT m.word[1] AS word, m.place, m.word[1] ~ '^(\s|--|/\*.)' AS blank,
               count(*) FILTER (WHERE m.word[1] = ';') OVER (ORDER BY m.place) AS statement
        FROM regexp_matches(
            left(query, 10000),
            '(?:\s|--[^\n\r]*|/\*(?:[^*]|\*+[^*/])*\*+/)+|(?:''[^'']*'')+|(?:"[^"]*")+|[^\s"'';/$-]+|/\*|.', 'g'
        ) WITH ORDINALITY AS m (word, place)
    ), statements AS (
        SELECT w.statement, btrim(string_agg(
            CASE WHEN w.blank THEN ' ' WHEN w.word LIKE '''%' THEN '''...''' ELSE w.word END, '' ORDER BY w.place)) AS line
        FROM words w WHERE w.word <> ';' GROUP BY w.statement
    )
    SELECT coalesce(string_agg(s.line, '; ' ORDER BY s.statement), '')
    FROM statements s
    WHERE s.line COLLATE "C" ~* ('^(DROP |(ALTER|CREATE) ((OR REPLACE|UNLOGGED|MATERIALIZED|FOREIGN) )*'
                                 '(TABLE|VIEW|INDEX|SEQUENCE|TYPE|DOMAIN|SCHEMA)\M)')
      AND s.statement < coalesce((
          SELECT min(w.statement) FROM words w
          WHERE w.word IN ('''', '"', '$', '/*') OR w.word ~ '^''.*\\' OR w.blank AND w.word ~ '/\*([^*]|\*+[^*/])*/\*'
      ), 10000)
$body$;

-- A watched relation as it is now; null if it is gone. Printed under a pinned search_path, so that types always have the same
-- names. `rest`: what no row depends on, to show what an ALTER TABLE was about.
CREATE OR REPLACE FUNCTION dyda.describe(watched oid) RETURNS jsonb
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $body$
DECLARE
    members oid[] := ARRAY(SELECT dyda.tree(watched));
BEGIN
    RETURN (
    WITH RECURSIVE used(typid) AS (
        SELECT a.atttypid FROM pg_attribute a
        WHERE a.attrelid = watched AND a.attnum > 0 AND NOT a.attisdropped AND a.atttypid >= 16384
        UNION
        SELECT inside.typid
        FROM used u JOIN pg_type t ON t.oid = u.typid, LATERAL (
            SELECT t.typbasetype UNION ALL SELECT t.typelem
            UNION ALL SELECT r.rngsubtype FROM pg_range r WHERE t.oid IN (r.rngtypid, r.rngmultitypid)
            UNION ALL SELECT a.atttypid FROM pg_attribute a
                      WHERE t.typrelid <> 0 AND a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped
        ) AS inside (typid)
        WHERE inside.typid >= 16384
    )
    SELECT jsonb_build_object(
        'schema', n.nspname,
        'table', c.relname,
        'columns', (SELECT coalesce(jsonb_agg(jsonb_build_array(k.number, k.name, k.bare, k.declared, k.builtin,
                                                                k.not_null, k.generated) ORDER BY k.number), '[]')
                    FROM dyda.columns(ARRAY[watched]) k),
        'defaults', (SELECT coalesce(jsonb_object_agg(d.adnum, pg_get_expr(d.adbin, d.adrelid)), '{}')
                     FROM pg_attrdef d WHERE d.adrelid = watched),
        'types', (SELECT coalesce(jsonb_object_agg(t.oid, jsonb_build_object(
                      'name', format_type(t.oid, NULL),
                      'labels', (SELECT jsonb_object_agg(e.oid, e.enumlabel) FROM pg_enum e WHERE e.enumtypid = t.oid),
                      'fields', (SELECT jsonb_object_agg(a.attnum, jsonb_build_array(a.attname, a.atttypid, a.atttypmod))
                                 FROM pg_attribute a
                                 WHERE t.typrelid <> 0 AND a.attrelid = t.typrelid AND a.attnum > 0
                                   AND NOT a.attisdropped))), '{}')
                  FROM used u JOIN pg_type t ON t.oid = u.typid),
        -- Statements on a parent outside would change rows uncaptured (rule C3).
        'parents', (SELECT coalesce(jsonb_agg(DISTINCT dyda.shown(i.inhparent)), '[]')
                    FROM pg_inherits i
                    WHERE i.inhrelid = ANY (members) AND i.inhparent NOT IN (SELECT unnest(members))),
        'rest', jsonb_build_object(
            'owner', c.relowner,
            'storage', md5(format('%s %s %s %s', c.relpersistence, c.relam, c.reltablespace, c.reloptions)),
            'replica identity', c.relreplident,
            'row security', format('%s %s', c.relrowsecurity, c.relforcerowsecurity),
            'constraints', (SELECT md5(string_agg(format('%s %s %s %s %s %s %s', k.oid, k.conname, k.conkey,
                                                         k.convalidated, k.condeferrable, k.condeferred, k.confkey),
                                                  E'\n' ORDER BY k.oid))
                            FROM pg_constraint k WHERE k.conrelid = watched AND k.contype <> 'n'),
            'statistics', (SELECT md5(string_agg(format('%s %s %s %s', a.attnum, a.attstattarget, a.attoptions,
                                                        a.attstorage), E'\n' ORDER BY a.attnum))
                           FROM pg_attribute a
                           WHERE a.attrelid = watched AND a.attnum > 0 AND NOT a.attisdropped
                             AND (a.attoptions IS NOT NULL OR coalesce(a.attstattarget, -1) <> -1))))
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.oid = watched);
END
$body$;

-- The tables that are captured, or were until this command, as parts of a watched relation. In SERIALIZABLE transactions from
-- the triggers: see dyda.keep_member.
CREATE OR REPLACE FUNCTION dyda.members(watched oid) RETURNS SETOF oid
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
    IF current_setting('transaction_isolation') <> 'serializable' THEN
        RETURN QUERY SELECT m.relid FROM dyda.member m WHERE m.root = watched;
    ELSE
        RETURN QUERY
            SELECT DISTINCT t.tgrelid
            FROM pg_depend d JOIN pg_trigger t ON t.oid = d.objid
            WHERE d.refclassid = 'pg_proc'::regclass AND d.refobjid = 'dyda.capture()'::regprocedure
              AND d.classid = 'pg_trigger'::regclass AND dyda.root_of(t.tgrelid, t.tgargs) = watched;
    END IF;
END
$body$;

-- Make capture follow the hierarchy below a watched relation, in the transaction that changed it (rule C2). Returns the tables
-- that came (those `made` by this very command are empty) and went (`dropped` among them), and whether capture was repaired
-- (rule C5: rows may have changed uncaptured). What cannot be captured is a gap (rule C3 refuses it then).
CREATE OR REPLACE FUNCTION dyda.follow(
    watched oid, made oid[], dropped oid[], OUT came jsonb, OUT went jsonb, OUT repaired boolean)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
    members oid[] := ARRAY(SELECT dyda.tree(watched));
    obstacles record;
    found record;
BEGIN
    came := '[]';
    went := '[]';
    repaired := false;
    obstacles := dyda.obstacles(watched);
    FOR found IN
        SELECT c.oid AS relid, c.relkind = 'f' AS is_foreign, c.oid = ANY (obstacles.suspended) AS is_suspended,
               c.oid = watched OR EXISTS (
                   SELECT FROM pg_trigger t WHERE t.tgrelid = c.oid AND t.tgfoid = 'dyda.capture()'::regprocedure
                     AND dyda.root_of(t.tgrelid, t.tgargs) = watched) AS known,
               (SELECT count(*) FROM dyda.capturing(c.oid, watched)) AS triggers
        FROM pg_class c WHERE c.oid = ANY (members) AND c.relkind IN ('r', 'p', 'f') AND c.relpersistence <> 't'
    LOOP
        IF found.is_foreign THEN  -- a part without capture, recorded so that its end is noticed
            IF dyda.keep_member(found.relid, watched) THEN
                came := came || jsonb_build_array(jsonb_build_array(dyda.shown(found.relid), false));
                PERFORM dyda.mark_gap();
            END IF;
        ELSIF found.is_suspended THEN
            IF found.triggers > 1 THEN
                PERFORM dyda.suspend_table(found.relid);
                PERFORM dyda.mark_gap();
            END IF;
        ELSIF found.triggers < 4 THEN
            PERFORM dyda.capture_table(found.relid, watched);
            IF found.known THEN
                repaired := true;
            ELSE
                came := came || jsonb_build_array(jsonb_build_array(
                    dyda.shown(found.relid), coalesce(found.relid = ANY (made), false)));
            END IF;
        END IF;
    END LOOP;
    IF obstacles.temporary <> '{}' THEN
        PERFORM dyda.mark_gap();
    END IF;
    FOR found IN
        SELECT m AS relid FROM dyda.members(watched) m
        UNION
        SELECT unnest(dropped)
    LOOP
        CONTINUE WHEN found.relid = ANY (members) AND EXISTS (SELECT FROM pg_class c WHERE c.oid = found.relid);
        went := went || jsonb_build_array(dyda.shown(found.relid));
        PERFORM dyda.release_table(found.relid);
    END LOOP;
END
$body$;

-- Look at tables of a watched relation (null: all) and keep their fingerprints. Returns whether one changed, and whether one
-- changed unseen (event_triggers = off): by a transaction that has ended and had not written anything when the table was last
-- looked at. Of what is visible here, only this transaction's own writes are in progress.
CREATE OR REPLACE FUNCTION dyda.look_at(watched oid, touched oid[], OUT moved boolean, OUT unseen boolean)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
    current bigint := pg_current_xact_id()::text::bigint;
    is_serializable boolean := current_setting('transaction_isolation') = 'serializable';
    members oid[] := ARRAY(SELECT t FROM dyda.tree(watched) t WHERE touched IS NULL OR t = ANY (touched));
    written bigint;
    part record;
    before record;
BEGIN
    moved := false;
    unseen := false;
    FOR part IN
        SELECT f.relid, f.lasting, f.writers FROM dyda.fingerprints(members) f
        JOIN pg_class c ON c.oid = f.relid WHERE c.relpersistence <> 't'
    LOOP
        IF NOT is_serializable THEN  -- see dyda.keep_member
            CONTINUE WHEN EXISTS (SELECT FROM dyda.member m WHERE m.relid = part.relid AND m.lasting = part.lasting);
        END IF;
        INSERT INTO dyda.member AS m (relid, root, lasting, writers)
        VALUES (part.relid, watched, part.lasting, part.writers)
        ON CONFLICT (relid) DO UPDATE SET lasting = excluded.lasting, writers = excluded.writers,
            known_lasting = m.lasting, known_writers = m.writers
        WHERE m.lasting IS DISTINCT FROM excluded.lasting
        RETURNING m.known_lasting, m.known_writers INTO before;
        CONTINUE WHEN NOT FOUND;
        moved := true;
        FOR written IN
            SELECT w FROM unnest(part.writers) w
            WHERE before.known_lasting IS NOT NULL AND NOT w = ANY (before.known_writers)
        LOOP
            written := (current & ~4294967295) | written;  -- xmin has 32 bits
            IF written > current + 2147483648 THEN
                written := written - 4294967296;
            ELSIF written < current - 2147483648 THEN
                written := written + 4294967296;
            END IF;
            unseen := unseen OR written < 3 OR pg_xact_status(written::text::xid8) IS DISTINCT FROM 'in progress';
        END LOOP;
    END LOOP;
END
$body$;

-- Keep a watched relation's description (null: it is gone). Returns the one kept before, and whether attach had found it
-- changed without a log entry; `telling`: that is forgotten, because the entry that follows says so.
CREATE OR REPLACE FUNCTION dyda.keep_description(
    watched oid, now jsonb, telling boolean, OUT known jsonb, OUT unseen boolean)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
    new jsonb := coalesce(now, 'null');
BEGIN
    known := now;
    unseen := false;
    IF current_setting('transaction_isolation') <> 'serializable' THEN  -- see dyda.keep_member
        IF EXISTS (SELECT FROM dyda.described d
                   WHERE d.root = watched AND d.description = new AND NOT (d.unseen AND telling)) THEN
            RETURN;
        ELSIF now IS NULL AND NOT EXISTS (SELECT FROM dyda.described d WHERE d.root = watched) THEN
            RETURN;
        END IF;
    END IF;
    INSERT INTO dyda.described AS d (root, description) VALUES (watched, new)
    ON CONFLICT (root) DO UPDATE SET description = excluded.description, unseen = false,
        known = d.description, known_unseen = d.unseen
    WHERE d.description <> excluded.description OR d.unseen AND telling
    RETURNING nullif(d.known, 'null'), coalesce(d.known_unseen, false) INTO known, unseen;
    IF NOT FOUND THEN
        known := now;
        unseen := false;
    END IF;
END
$body$;

-- The name that a watched relation was asked for by.
CREATE OR REPLACE FUNCTION dyda.asked(watched oid, OUT schema_name text, OUT table_name text)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $body$
#variable_conflict use_column
BEGIN
    IF current_setting('transaction_isolation') <> 'serializable' THEN  -- see dyda.keep_member
        SELECT w.schema_name, w.table_name INTO schema_name, table_name FROM dyda.watched w WHERE w.root = watched;
    ELSE
        INSERT INTO dyda.watched AS w (root, schema_name, table_name) VALUES (watched, '', '')
        ON CONFLICT (root) DO UPDATE SET root = w.root
        RETURNING nullif(w.schema_name, ''), nullif(w.table_name, '') INTO schema_name, table_name;
        IF schema_name IS NULL THEN
            DELETE FROM dyda.watched w WHERE w.root = watched;  -- it was not asked for any more
        END IF;
    END IF;
END
$body$;

-- The lasting fingerprint after the logged changes, as catalog.fingerprint makes it. Built from what each transaction kept and
-- read under a snapshot, it is also right for transactions that change different parts at the same time. A table that was
-- changed unseen makes it differ from the real one.
CREATE OR REPLACE FUNCTION dyda.lasting(watched oid) RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $body$
    SELECT coalesce((
        SELECT md5(convert_to(n.nspname || ' ' || string_agg(coalesce(m.lasting, ''), ' ' ORDER BY m.relid), 'UTF8'))
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace, dyda.member m
        WHERE c.oid = watched AND m.root = watched
        GROUP BY n.nspname), 'absent')
$body$;

-- For attach: keep what a watched relation is like, without a log entry. If it changed since it was last seen, the next entry
-- says that something went unseen. Usually nothing differs, and nothing is locked. Otherwise the lock comes first: a schema
-- change that commits meanwhile must not be forgotten.
CREATE OR REPLACE FUNCTION dyda.remember(watched oid) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
    known jsonb;
    now jsonb;
    looked record;
BEGIN
    IF EXISTS (SELECT FROM dyda.described d WHERE d.root = watched AND d.description = dyda.describe(watched))
       AND NOT EXISTS (SELECT FROM dyda.fingerprints(ARRAY(SELECT m.relid FROM dyda.member m WHERE m.root = watched)) f
                       JOIN dyda.member m ON m.relid = f.relid WHERE m.lasting IS DISTINCT FROM f.lasting) THEN
        RETURN;
    END IF;
    SELECT nullif(d.description, 'null') INTO known FROM dyda.described d WHERE d.root = watched FOR UPDATE;
    now := dyda.describe(watched);
    IF now IS NULL THEN
        RETURN;
    END IF;
    looked := dyda.look_at(watched, NULL);
    IF known IS NULL THEN
        INSERT INTO dyda.described AS d (root, description) VALUES (watched, now)
        ON CONFLICT (root) DO UPDATE SET description = excluded.description WHERE d.description = 'null';
    ELSIF known <> now OR looked.moved THEN
        UPDATE dyda.described d SET description = now, unseen = true WHERE d.root = watched;
    END IF;
    IF dyda.by_wal() THEN  -- rows that were streamed meanwhile may have been taken for others
        PERFORM dyda.tell_all(watched);
        IF known IS NOT NULL AND (known <> now OR looked.moved) THEN
            PERFORM dyda.forward_open_gap();
        END IF;
    END IF;
END
$body$;

-- What may be shown of the running query (dyda.shown), computed once in a transaction: a script may have many commands.
CREATE OR REPLACE FUNCTION dyda.shown_query() RETURNS text
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
    noted jsonb := dyda.noted();
    query text := md5(current_query());
    shown text := noted #>> ARRAY['ddl', query];
BEGIN
    IF shown IS NULL THEN
        shown := dyda.shown(current_query());
        PERFORM dyda.note(noted || jsonb_build_object('ddl', jsonb_build_object(query, shown)));
    END IF;
    RETURN shown;
END
$body$;

-- Compare a watched relation with what was known of it; if it differs, log both and keep the present. `made`: the tables that
-- this command created; `touched`: those of its tables that it was about, even dropped ones (null: all). The entry's image:
--   schema, table    the name it was asked for by
--   command, ddl     PostgreSQL's tag and what may be shown of the query
--   before, after    dyda.describe then and now; no `before`: never described, `after` null: gone
--   came, went       tables of its hierarchy, see dyda.follow; repaired: likewise
--   rewritten        why its rows were rewritten, as table_rewrite says it (0: they were not)
--   unseen           something else changed it before, without an entry
CREATE OR REPLACE FUNCTION dyda.observe(watched oid, command text, made oid[], touched oid[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
    noted jsonb := dyda.noted();
    rewritten integer := coalesce((noted #>> ARRAY['roots', watched::text])::integer, 0);
    now jsonb;
    followed record;
    looked record;
    kept record;
    asked record;
BEGIN
    IF noted -> 'roots' ? watched::text THEN
        noted := noted #- ARRAY['roots', watched::text];
        PERFORM dyda.note(noted);
    END IF;
    followed := dyda.follow(watched, made, ARRAY(
        SELECT t FROM unnest(touched) t WHERE NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = t)));
    now := dyda.describe(watched);
    looked := dyda.look_at(watched, CASE WHEN followed.came = '[]' AND NOT followed.repaired THEN touched END);
    kept := dyda.keep_description(watched, now, looked.moved OR rewritten <> 0 OR followed.came <> '[]'
                                  OR followed.went <> '[]' OR followed.repaired);
    IF now IS NULL AND kept.known IS NULL THEN
        RETURN;  -- logged already
    END IF;
    IF kept.known IS NOT DISTINCT FROM now AND NOT looked.moved AND rewritten = 0 AND followed.came = '[]'
       AND followed.went = '[]' AND NOT followed.repaired THEN
        RETURN;
    END IF;
    asked := dyda.asked(watched);
    INSERT INTO dyda.log (op, root, relid, image)
    SELECT 'S', watched, watched, json_build_object(
        'schema', asked.schema_name, 'table', asked.table_name, 'command', command, 'ddl', dyda.shown_query(),
        'before', kept.known, 'after', now, 'came', followed.came, 'went', followed.went, 'repaired', followed.repaired,
        'rewritten', rewritten, 'unseen', looked.unseen OR kept.unseen)::text
    WHERE asked.schema_name IS NOT NULL;
    -- A name that it gave up in this very transaction counts as asked for: see dyda.command_ended.
    IF kept.known IS NOT NULL AND (kept.known ->> 'schema' IS DISTINCT FROM now ->> 'schema' OR kept.known ->> 'table' IS DISTINCT FROM now ->> 'table') THEN
        noted := dyda.noted();
        PERFORM dyda.note(noted || jsonb_build_object('left', jsonb_build_object(
            format('%I.%I', kept.known ->> 'schema', kept.known ->> 'table'), watched::bigint)
            || coalesce(noted -> 'left', '{}')));  -- who left it first
    END IF;
END
$body$;

-- Another relation has taken a watched name: logged with both oids and a description of the new one (`after`), which is watched
-- from now on if it is a table (and not part of another one, whose capture has its rows).
CREATE OR REPLACE FUNCTION dyda.replaced(wanted_schema text, wanted_table text, old oid, new oid, command text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
    now jsonb := dyda.describe(new);
BEGIN
    INSERT INTO dyda.holder (schema_name, table_name, root) VALUES (wanted_schema, wanted_table, new)
    ON CONFLICT (schema_name, table_name) DO UPDATE SET root = excluded.root;
    IF EXISTS (SELECT FROM pg_class c WHERE c.oid = new AND c.relkind IN ('r', 'p')
               AND NOT EXISTS (SELECT FROM pg_inherits i WHERE i.inhrelid = c.oid)) THEN
        INSERT INTO dyda.watched (root, schema_name, table_name) VALUES (new, wanted_schema, wanted_table)
        ON CONFLICT (root) DO NOTHING;
        IF FOUND THEN
            PERFORM dyda.follow(new, NULL, NULL);
            PERFORM dyda.look_at(new, NULL);
            PERFORM dyda.keep_description(new, now, false);
        END IF;
    END IF;
    INSERT INTO dyda.log (op, root, relid, image)
    SELECT 'S', new, new, json_build_object(
        'schema', wanted_schema, 'table', wanted_table, 'command', command, 'ddl', dyda.shown_query(),
        'old', old::bigint, 'new', new::bigint, 'after', now)::text;
END
$body$;
