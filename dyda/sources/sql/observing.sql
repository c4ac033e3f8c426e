-- observing: what a watched relation is like, what it was like when last looked at, and what is logged if that differs.
-- Called by the event triggers (sql/events.sql), inside the transaction that changed it, and by attach.

DROP FUNCTION IF EXISTS dyda.log_schema_change(oid, text), dyda.follow(oid);  -- an older DyDa's

-- What earlier events of the same command left to be looked at by its last one: root -> why it was rewritten (0: it was
-- not). Anybody could write this parameter, hence the seal; DDL on a temporary table would otherwise be enough to have
-- changes logged that nobody made.
CREATE OR REPLACE FUNCTION dyda.noted() RETURNS jsonb
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
    kept text := coalesce(current_setting('dyda.noted', true), '');
BEGIN
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

CREATE OR REPLACE FUNCTION dyda.shown(relation oid) RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $body$
    SELECT format('%I.%I', n.nspname, c.relname) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.oid = relation
$body$;

-- What may be shown of a query: its DDL of tables, views, types and schemas, in one line and without comments. Whatever
-- else was sent with it may hold a password (ALTER ROLE, a function's argument, rows), and so may every literal (the key
-- in USING decrypt(a, 'key')). Where quotes cannot be told from what they enclose (backslashes, $$, nested comments, the
-- end of what is read), nothing is shown from that statement on.
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

-- A watched relation as it is now; null if it is gone. Printed under a pinned search_path, so that types are always called
-- the same. `rest`: what no row depends on, for those who want to know what an ALTER TABLE was about.
CREATE OR REPLACE FUNCTION dyda.describe(watched oid) RETURNS jsonb
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $body$
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
        -- Statements on a parent outside would change rows unseen (rule C3).
        'parents', (SELECT coalesce(jsonb_agg(DISTINCT dyda.shown(i.inhparent)), '[]')
                    FROM dyda.tree(watched) t JOIN pg_inherits i ON i.inhrelid = t
                    WHERE i.inhparent NOT IN (SELECT inside FROM dyda.tree(watched) inside)),
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
    WHERE c.oid = watched
$body$;

-- Capture follows the hierarchy below a watched relation, in the transaction that changed it (rule C2). Tells which tables
-- came (those made by this very command, `made`, are empty) and went, and whether capture had to be repaired (rule C5:
-- rows may have moved unseen meanwhile).
CREATE OR REPLACE FUNCTION dyda.follow(watched oid, made oid[], OUT came jsonb, OUT went jsonb, OUT repaired boolean)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
    found record;
BEGIN
    came := '[]';
    went := '[]';
    repaired := false;
    IF EXISTS (SELECT FROM pg_class c WHERE c.oid = watched) THEN
        FOR found IN
            SELECT t AS relid, EXISTS (SELECT FROM dyda.member m WHERE m.relid = t AND m.root = watched) AS known
            FROM dyda.tree(watched) t JOIN pg_class c ON c.oid = t
            WHERE c.relkind IN ('r', 'p')
              AND (NOT EXISTS (SELECT FROM dyda.member m WHERE m.relid = t AND m.root = watched)
                   OR (SELECT count(*) FROM dyda.capturing(t, watched)) < 4)
        LOOP
            PERFORM dyda.capture_table(found.relid, watched);
            IF found.known THEN
                repaired := true;
            ELSIF found.relid <> watched THEN
                came := came || jsonb_build_array(jsonb_build_array(
                    dyda.shown(found.relid), coalesce(found.relid = ANY (made), false)));
            END IF;
        END LOOP;
    END IF;
    FOR found IN
        SELECT m.relid FROM dyda.member m
        WHERE m.root = watched AND (m.relid NOT IN (SELECT t FROM dyda.tree(watched) t)
                                    OR NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = m.relid))
    LOOP
        went := went || jsonb_build_array(dyda.shown(found.relid));
        PERFORM dyda.release_table(found.relid);
    END LOOP;
END
$body$;

-- Look at tables of a watched relation (null: all; those never looked at in any case) and keep their fingerprints. Tells
-- whether one moved, and whether one was moved unseen (event_triggers = off): what a transaction wrote that has ended, and
-- that had not written anything when the table was last looked at. What this transaction wrote is the only thing visible
-- here that is in progress.
CREATE OR REPLACE FUNCTION dyda.look_at(watched oid, touched oid[], OUT moved boolean, OUT unseen boolean)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
    current bigint := pg_current_xact_id()::text::bigint;
    written bigint;
    found record;
BEGIN
    moved := false;
    unseen := false;
    FOR found IN
        SELECT f.relid, f.lasting, f.writers, m.lasting AS known, m.writers AS known_writers
        FROM dyda.fingerprints(ARRAY(
            SELECT m.relid FROM dyda.member m
            WHERE m.root = watched AND (touched IS NULL OR m.lasting IS NULL OR m.relid = ANY (touched)))) f
        JOIN dyda.member m ON m.relid = f.relid
        WHERE m.lasting IS DISTINCT FROM f.lasting
    LOOP
        moved := true;
        UPDATE dyda.member m SET lasting = found.lasting, writers = found.writers WHERE m.relid = found.relid;
        FOR written IN
            SELECT w FROM unnest(found.writers) w WHERE found.known IS NOT NULL AND NOT w = ANY (found.known_writers)
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

-- The lasting fingerprint that the logged changes left, as catalog.fingerprint makes it of the tables' fingerprints. Made of
-- what was kept by each transaction that changed something, and read under a snapshot, it is right also for transactions
-- that change different parts at the same time. A table that was changed unseen makes it differ from the real one.
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

-- Keep what a watched relation is like, without a word in the log: for attach. If it is not as it was last seen, something
-- went unseen; the next change that is logged says so. Mostly nothing differs, and nothing is locked. Otherwise the lock
-- first: a schema change that commits meanwhile must not be forgotten.
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
    SELECT d.description INTO known FROM dyda.described d WHERE d.root = watched FOR UPDATE;
    now := dyda.describe(watched);
    IF now IS NULL THEN
        RETURN;
    END IF;
    looked := dyda.look_at(watched, NULL);
    IF known IS NULL THEN
        INSERT INTO dyda.described (root, description) VALUES (watched, now) ON CONFLICT DO NOTHING;
    ELSIF known <> now OR looked.moved THEN
        UPDATE dyda.described d SET description = now, unseen = true WHERE d.root = watched;
    END IF;
END
$body$;

-- Compare a watched relation with what was known of it; if it differs, log both and remember the present. `made` are the
-- tables that this command created, `touched` those of its tables that it was about (null: all). The entry's image:
--   schema, table    the name it was asked for by
--   command, ddl     PostgreSQL's tag and what may be shown of the query
--   before, after    dyda.describe then and now; no `before`: never described, `after` null: gone
--   came, went       tables of its hierarchy, see dyda.follow; repaired: likewise
--   rewritten        why its rows were rewritten, as table_rewrite tells it (0: they were not)
--   unseen           something else changed it before, without a word here
CREATE OR REPLACE FUNCTION dyda.observe(watched oid, command text, made oid[], touched oid[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
    noted jsonb := dyda.noted();
    rewritten integer := coalesce((noted ->> watched::text)::integer, 0);
    known jsonb;
    unseen boolean;
    now jsonb;
    followed record;
    looked record;
BEGIN
    IF noted ? watched::text THEN
        PERFORM dyda.note(noted - watched::text);
    END IF;
    SELECT d.description, d.unseen INTO known, unseen FROM dyda.described d WHERE d.root = watched;
    followed := dyda.follow(watched, made);
    now := dyda.describe(watched);
    IF now IS NULL AND known IS NULL THEN
        RETURN;  -- told already
    END IF;
    looked := dyda.look_at(watched, touched);
    IF known IS NOT DISTINCT FROM now AND NOT looked.moved AND rewritten = 0 AND followed.came = '[]'
       AND followed.went = '[]' AND NOT followed.repaired THEN
        RETURN;
    END IF;
    INSERT INTO dyda.log (op, root, relid, image)
    SELECT 'S', watched, watched, json_build_object(
        'schema', w.schema_name, 'table', w.table_name, 'command', command, 'ddl', dyda.shown(current_query()),
        'before', known, 'after', now, 'came', followed.came, 'went', followed.went, 'repaired', followed.repaired,
        'rewritten', rewritten, 'unseen', looked.unseen OR coalesce(unseen, false))::text
    FROM dyda.watched w WHERE w.root = watched;
    IF now IS NULL THEN
        DELETE FROM dyda.described d WHERE d.root = watched;
    ELSIF known IS DISTINCT FROM now OR unseen THEN  -- otherwise not even the row's lock: other parts may be changed meanwhile
        INSERT INTO dyda.described (root, description) VALUES (watched, now)
        ON CONFLICT (root) DO UPDATE SET description = excluded.description, unseen = false;
    END IF;
END
$body$;

-- Another relation under a name that is asked for: logged with both oids and with what the new one is like (`after`), and
-- watched from now on if it is a table (and not a part of another one: its rows belong to that one's capture).
CREATE OR REPLACE FUNCTION dyda.replaced(wanted_schema text, wanted_table text, old oid, new oid, command text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
    INSERT INTO dyda.holder (schema_name, table_name, root) VALUES (wanted_schema, wanted_table, new)
    ON CONFLICT (schema_name, table_name) DO UPDATE SET root = excluded.root;
    IF NOT EXISTS (SELECT FROM dyda.watched w WHERE w.root = new)
       AND EXISTS (SELECT FROM pg_class c WHERE c.oid = new AND c.relkind IN ('r', 'p')
                   AND NOT EXISTS (SELECT FROM pg_inherits i WHERE i.inhrelid = c.oid)) THEN
        INSERT INTO dyda.watched (root, schema_name, table_name) VALUES (new, wanted_schema, wanted_table);
        PERFORM dyda.follow(new, NULL);
        PERFORM dyda.remember(new);
    END IF;
    INSERT INTO dyda.log (op, root, relid, image)
    SELECT 'S', new, new, json_build_object(
        'schema', wanted_schema, 'table', wanted_table, 'command', command, 'ddl', dyda.shown(current_query()),
        'old', old::bigint, 'new', new::bigint, 'after', dyda.describe(new))::text;
END
$body$;

REVOKE ALL ON FUNCTION
    dyda.noted(), dyda.note(jsonb), dyda.columns(oid[]), dyda.fingerprints(oid[]), dyda.tree(oid), dyda.shown(oid), dyda.shown(text),
    dyda.describe(oid),
    dyda.follow(oid, oid[]), dyda.look_at(oid, oid[]), dyda.lasting(oid), dyda.remember(oid),
    dyda.observe(oid, text, oid[], oid[]), dyda.replaced(text, text, oid, oid, text)
    FROM PUBLIC;
