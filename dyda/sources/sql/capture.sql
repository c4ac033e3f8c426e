-- capture: the functions that run inside the sources' own transactions, with the rights of the role that owns capture.
-- Always true: what fails becomes a gap, and no lock is waited for longer than 40 ms. They raise only if not even the gap can
-- be recorded, for rows would be lost silently (dyda.mark_gap). Settings that affect printing are pinned (rule C1).

DROP FUNCTION IF EXISTS dyda.shape(oid, oid);  -- an older DyDa's

-- Any writer can set a session's parameters: what we keep there counts only with this seal, made of the transaction, the text
-- and dyda.key.
CREATE OR REPLACE FUNCTION dyda.seal(what text) RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $body$
    SELECT md5(k.last_value || ' ' || md5(k.last_value || ' ' || pg_current_xact_id_if_assigned()::text || ' ' || what))
    FROM dyda.key k
$body$;

-- We ignore our own DDL and deletions. Sealed, so that nobody else can have his ignored.
CREATE OR REPLACE FUNCTION dyda.be_quiet() RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
    PERFORM pg_current_xact_id();
    PERFORM set_config('dyda.quiet', dyda.seal('quiet'), true);
END
$body$;

CREATE OR REPLACE FUNCTION dyda.is_quiet() RETURNS boolean
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
    RETURN coalesce(current_setting('dyda.quiet', true), '') <> ''
        AND coalesce(current_setting('dyda.quiet', true) = dyda.seal('quiet'), false);
END
$body$;

-- Whether this is a copy of the database that was attached: capture is inactive there. Asked when a statement is planned (see
-- dyda.places about IMMUTABLE): a session never changes its database, and attach, which may change the answer, replaces the
-- functions that ask.
CREATE OR REPLACE FUNCTION dyda.is_copy() RETURNS boolean
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
    RETURN coalesce(pg_sequence_last_value('dyda.home_number'::regclass) <> dyda.here(), false);
END
$body$;

-- Record a gap. The lock is held until the writer's transaction ends, and released only after its rows became visible; nobody
-- else may take one of its kind. Whoever reads the counter first, then finds the lock free, then takes a snapshot has every row
-- behind that counter in the snapshot (otherwise a resync could miss a writer that commits a moment later).
-- Raises if that is impossible: the transaction was made read-only half-way, the stack is used up, the lock table is full and
-- not even a sequence can be had. A statement that fails is better than rows lost silently.
CREATE OR REPLACE FUNCTION dyda.mark_gap() RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '40ms'
AS $body$
BEGIN
    BEGIN
        PERFORM pg_current_xact_id();
        PERFORM set_config('dyda.failed', dyda.seal('failed'), true);
        PERFORM set_config('dyda.logging', repeat('.', 30), true);  -- otherwise dyda.capture does not look
    EXCEPTION WHEN OTHERS THEN
        NULL;  -- without the seal this transaction may have to wait again
    END;
    BEGIN
        LOCK TABLE dyda.mark IN ROW SHARE MODE;
    EXCEPTION WHEN OTHERS THEN
        -- No lock (the lock table may be full). The gap counts all the same, and is open until every transaction up to this one
        -- has ended.
        PERFORM setval('dyda.gap_until',
                       greatest((SELECT u.last_value FROM dyda.gap_until u), pg_current_xact_id()::text::bigint));
    END;
    PERFORM nextval('dyda.gap');
EXCEPTION WHEN OTHERS THEN
    IF to_regclass('dyda.gap') IS NULL THEN
        RETURN;  -- opening the source will find it missing
    END IF;
    RAISE EXCEPTION 'DyDa could neither capture this change nor record that it was missed: %', SQLERRM
        USING ERRCODE = SQLSTATE,
              DETAIL = 'If it were committed, the views that DyDa maintains would miss the change without any notice.',
              HINT = 'Fix the cause and run the transaction again, or stop capturing this database: `dyda sources detach`.';
END
$body$;

-- A gap found later: its number is a new one, even if a backup has undone part of the history.
CREATE OR REPLACE FUNCTION dyda.forward_gap() RETURNS void
LANGUAGE sql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $body$
    SELECT setval('dyda.gap', greatest((SELECT g.last_value + 1 FROM dyda.gap g),
                                       (extract(epoch FROM clock_timestamp()) * 1000000)::bigint))
$body$;

-- A table's column names by number (null: dropped), as PostgreSQL itself knows them now: under REPEATABLE READ, pg_attribute
-- may show an older state than the rows that are written.
CREATE OR REPLACE FUNCTION dyda.names_now(relation oid) RETURNS text[]
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
    found text[] := '{}';
    name text;
BEGIN
    LOOP
        SELECT a.object_names[3] INTO name
        FROM pg_identify_object_as_address('pg_class'::regclass, relation, cardinality(found) + 1) a;
        EXIT WHEN name IS NULL;
        IF has_column_privilege(relation, (cardinality(found) + 1)::int2, 'SELECT') IS NULL THEN
            name := NULL;
        END IF;
        found := array_append(found, name);
    END LOOP;
    RETURN found;
END
$body$;

-- The column numbers in the watched relation of a written row's columns: 2,1,0 (0: not there). From pg_attribute where that
-- shows what is written; see dyda.names_now.
CREATE OR REPLACE FUNCTION dyda.places(relation oid, watched oid) RETURNS text
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
    theirs text[];
BEGIN
    IF current_setting('transaction_isolation') = 'read committed' THEN
        RETURN coalesce(string_agg(coalesce(w.attnum, 0)::text, ',' ORDER BY a.attnum), '')
        FROM pg_attribute a
        LEFT JOIN pg_attribute w
            ON w.attrelid = watched AND w.attname = a.attname AND w.attnum > 0 AND NOT w.attisdropped
        WHERE a.attrelid = relation AND a.attnum > 0 AND NOT a.attisdropped;
    END IF;
    theirs := dyda.names_now(watched);
    RETURN coalesce(string_agg(coalesce(array_position(theirs, o.name), 0)::text, ',' ORDER BY o.place), '')
    FROM unnest(dyda.names_now(relation)) WITH ORDINALITY AS o (name, place) WHERE o.name IS NOT NULL;
END
$body$;

-- The same for rows of the watched relation itself, its oid in dyda.planned, and shorter: 1-4,7. IMMUTABLE is not true, but
-- makes PostgreSQL ask when it plans a statement and keep the answer with the plan (an argument would be known too late for
-- that). Altering the written table voids the plan; altering another one, such as the parent of a child, does not.
CREATE OR REPLACE FUNCTION dyda.places() RETURNS text
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
    RETURN coalesce(string_agg(CASE WHEN r.first = r.last THEN r.first::text ELSE r.first || '-' || r.last END, ','
                               ORDER BY r.first), '')
    FROM (
        SELECT min(n.number) AS first, max(n.number) AS last
        FROM (
            SELECT o.number, o.number - row_number() OVER (ORDER BY o.number) AS run
            FROM unnest(dyda.names_now(current_setting('dyda.planned')::oid)) WITH ORDINALITY AS o (name, number)
            WHERE o.name IS NOT NULL
        ) AS n
        GROUP BY n.run
    ) AS r;
END
$body$;

-- Fails if the log has reached its limit. Called only every 256 rows: it takes as long as writing some.
CREATE OR REPLACE FUNCTION dyda.measure() RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
    most bigint;
BEGIN
    SELECT c.log_limit INTO STRICT most FROM dyda.consumer c;
    IF pg_table_size('dyda.log'::regclass) > most THEN
        RAISE EXCEPTION 'the log has reached its limit';
    END IF;
    PERFORM setval('dyda.measure_at', pg_sequence_last_value('dyda.log_sequence'::regclass) + 256);
END
$body$;

-- The one trigger function. record_out and not ::text: a user may define a cast from a row type to text. alias.* and not the
-- alias: a column might have that name.
--
-- Each write inside the EXCEPTION block costs a subtransaction id, and more than 64 of them in one transaction slow down every
-- reader of the server. So only the first 30 statements of a transaction write there; dyda.logging has a dot for each. From
-- then on the transaction holds its locks on the log, so nobody else can lock, drop or alter it. Images of later statements, if
-- few (a hundred rows, a million bytes), are made inside the block and written outside, which takes a little longer. (Whoever
-- sets dyda.logging himself can only make his own statements wait or fail.)
--
-- Most transactions have few statements, and there an expression's cost is its preparation, which plpgsql repeats in each
-- transaction: it looks up the rights on every function and operator in it, even on those behind an AND that are never reached.
-- Hence few expressions, and rare ones in statements of their own.
CREATE OR REPLACE FUNCTION dyda.capture() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '40ms'
SET extra_float_digits = 1
SET IntervalStyle = postgres
SET DateStyle = 'ISO, YMD'
SET TimeZone = 'UTC'
SET bytea_output = hex
SET lc_monetary = 'C'
SET quote_all_identifiers = off
SET plan_cache_mode = force_generic_plan
AS $body$
#variable_conflict use_variable
DECLARE
    watched_root oid;
    places text;
    emptied text;
    was text;
    late boolean;
    shape text;
    old_images text[];
    new_images text[];
    size bigint;
    rows integer;
BEGIN
    <<guarded>>
    BEGIN
        -- plpgsql evaluates every expression here by itself: a query costs ten times as much.
        was := current_setting('dyda.logging', true);
        IF dyda.is_copy() OR octet_length(was) >= 30 THEN
            IF dyda.is_copy() THEN
                RETURN NULL;
            END IF;
            -- After a first failure (dyda.mark_gap makes it thirty dots) this transaction does not wait again; the
            -- counter still moves.
            IF current_setting('dyda.failed', true) <> '' THEN
                IF current_setting('dyda.failed', true) = dyda.seal('failed') THEN
                    PERFORM dyda.mark_gap();
                    RETURN NULL;
                END IF;
            END IF;
            late := true;
        ELSE
            was := set_config('dyda.logging', coalesce(was, '') || '.', true);
        END IF;
        IF pg_sequence_last_value('dyda.log_sequence'::regclass) >= pg_sequence_last_value('dyda.measure_at'::regclass) THEN
            PERFORM dyda.measure();
        END IF;
        was := set_config('dyda.planned', TG_RELID::text, true);
        watched_root := TG_ARGV[0];
        IF (TG_RELID <> watched_root) IS NOT FALSE THEN  -- null, too
            IF watched_root IS NULL THEN  -- an older DyDa's trigger
                SELECT m.root INTO STRICT watched_root FROM dyda.member m WHERE m.relid = TG_RELID;
            END IF;
            IF TG_RELID <> watched_root THEN
                places := dyda.places(TG_RELID, watched_root);
            END IF;
        END IF;
        IF TG_OP = 'TRUNCATE' AND TG_RELID = watched_root THEN
            -- Nothing is left of it, unless ONLY spared its children. An older snapshot may not show these; and what
            -- another trigger of the same statement writes need not be logged after this entry.
            SELECT 'whole' INTO emptied
            FROM pg_class c
            WHERE c.oid = watched_root AND current_setting('transaction_isolation') = 'read committed'
              AND (c.relkind = 'p' OR NOT EXISTS (SELECT FROM pg_inherits i WHERE i.inhparent = c.oid))
              AND NOT EXISTS (SELECT FROM pg_trigger t JOIN pg_class o ON o.oid = t.tgrelid
                              WHERE t.tgtype & 32 <> 0 AND t.tgname <> 'dyda_truncate'
                                AND o.relnamespace <> 'dyda'::regnamespace);
        END IF;
        IF late THEN
            -- The shape in the same query as the rows: only a plan that reads them is voided with the table's schema.
            IF TG_OP = 'INSERT' THEN
                SELECT coalesce(places, dyda.places()), array_agg(n.image), sum(octet_length(n.image))
                INTO shape, new_images, size
                FROM (SELECT textin(record_out("dyda row".*)) FROM "dyda new" AS "dyda row" LIMIT 101) AS n (image);
            ELSIF TG_OP = 'UPDATE' THEN
                SELECT coalesce(places, dyda.places()), o.images, n.images, o.size + n.size
                INTO shape, old_images, new_images, size
                FROM (SELECT array_agg(o.image), sum(octet_length(o.image))
                      FROM (SELECT textin(record_out("dyda row".*))
                            FROM "dyda old" AS "dyda row" LIMIT 101) AS o (image)) AS o (images, size),
                     (SELECT array_agg(n.image), sum(octet_length(n.image))
                      FROM (SELECT textin(record_out("dyda row".*))
                            FROM "dyda new" AS "dyda row" LIMIT 101) AS n (image)) AS n (images, size);
            ELSIF TG_OP = 'DELETE' THEN
                SELECT coalesce(places, dyda.places()), array_agg(o.image), sum(octet_length(o.image))
                INTO shape, old_images, size
                FROM (SELECT textin(record_out("dyda row".*)) FROM "dyda old" AS "dyda row" LIMIT 101) AS o (image);
            END IF;
            rows := greatest(cardinality(old_images), cardinality(new_images));
            EXIT guarded WHEN rows IS NULL OR rows <= 100 AND size <= 1000000;
        END IF;
        IF TG_OP = 'INSERT' THEN
            INSERT INTO dyda.log (op, root, relid, shape, image)
            SELECT 'I', watched_root, TG_RELID, coalesce(places, dyda.places()), textin(record_out("dyda row".*))
            FROM "dyda new" AS "dyda row";
        ELSIF TG_OP = 'UPDATE' THEN
            INSERT INTO dyda.log (op, root, relid, shape, image)
            SELECT r.op, watched_root, TG_RELID, coalesce(places, dyda.places()), textin(r.image)
            FROM (SELECT 'D'::"char", record_out("dyda row".*) FROM "dyda old" AS "dyda row"
                  UNION ALL
                  SELECT 'I'::"char", record_out("dyda row".*) FROM "dyda new" AS "dyda row") AS r (op, image);
        ELSIF TG_OP = 'DELETE' THEN
            INSERT INTO dyda.log (op, root, relid, shape, image)
            SELECT 'D', watched_root, TG_RELID, coalesce(places, dyda.places()), textin(record_out("dyda row".*))
            FROM "dyda old" AS "dyda row";
        ELSE
            INSERT INTO dyda.log (op, root, relid, image) VALUES ('T', watched_root, TG_RELID, emptied);
        END IF;
        RETURN NULL;
    EXCEPTION WHEN OTHERS THEN
        IF to_regprocedure('dyda.mark_gap()') IS NOT NULL THEN  -- otherwise opening the source will find it missing
            PERFORM dyda.mark_gap();
        END IF;
        RETURN NULL;
    END;
    -- Whatever this may have to wait for (the log's file grows, say), the written table had to wait for, too.
    was := set_config('lock_timeout', '0', true);
    IF TG_OP = 'TRUNCATE' THEN
        INSERT INTO dyda.log (op, root, relid, image) VALUES ('T', watched_root, TG_RELID, emptied);
    ELSIF rows = 1 AND TG_OP = 'INSERT' THEN  -- frequent, and cheaper than the general case
        INSERT INTO dyda.log (op, root, relid, shape, image) VALUES ('I', watched_root, TG_RELID, shape, new_images[1]);
    ELSIF rows = 1 AND TG_OP = 'UPDATE' THEN
        INSERT INTO dyda.log (op, root, relid, shape, image)
        VALUES ('D', watched_root, TG_RELID, shape, old_images[1]), ('I', watched_root, TG_RELID, shape, new_images[1]);
    ELSIF rows >= 1 THEN
        INSERT INTO dyda.log (op, root, relid, shape, image)
        SELECT 'D'::"char", watched_root, TG_RELID, shape, unnest(old_images)
        UNION ALL
        SELECT 'I'::"char", watched_root, TG_RELID, shape, unnest(new_images);
    END IF;
    RETURN NULL;
END
$body$;

-- The watched relation that a trigger of capture's belongs to. An older DyDa's have no argument; dyda.member has theirs.
CREATE OR REPLACE FUNCTION dyda.root_of(relation oid, arguments bytea) RETURNS oid
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
    IF length(arguments) > 0 THEN
        RETURN convert_from(substr(arguments, 1, position(decode('00', 'hex') IN arguments) - 1), 'SQL_ASCII')::oid;
    END IF;
    RETURN (SELECT m.root FROM dyda.member m WHERE m.relid = relation);
END
$body$;

-- Whether rows are captured from the write-ahead log: the publication is there. Then tables have only the trigger for
-- TRUNCATE, which says in the catalog which relation they are part of, and costs nothing when rows are written.
CREATE OR REPLACE FUNCTION dyda.by_wal() RETURNS boolean
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
    RETURN EXISTS (SELECT FROM pg_publication p WHERE p.pubname = 'dyda_capture');
END
$body$;

-- Whether the log gets whole rows of this table. Columns that cannot be published would make writers' UPDATE fail.
CREATE OR REPLACE FUNCTION dyda.is_published(relation oid) RETURNS boolean
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
    RETURN EXISTS (
        SELECT FROM pg_class c
        WHERE c.oid = relation AND (c.relkind = 'p' OR c.relreplident = 'f' AND EXISTS (
            SELECT FROM pg_publication p JOIN pg_publication_rel r ON r.prpubid = p.oid
            WHERE r.prrelid = relation AND p.pubname = 'dyda_capture'
              AND p.pubinsert AND p.pubupdate AND p.pubdelete AND NOT p.pubviaroot
              AND to_jsonb(r) ->> 'prqual' IS NULL AND to_jsonb(r) ->> 'prattrs' IS NULL
              AND to_jsonb(p) ->> 'pubgencols' IS DISTINCT FROM 'n')
            AND dyda.unpublishable(relation) IS NULL));
END
$body$;

-- The columns that the write-ahead log does not have, null if there are none.
CREATE OR REPLACE FUNCTION dyda.unpublishable(relation oid) RETURNS text
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
    RETURN (SELECT string_agg(a.attname, ', ' ORDER BY a.attnum) FROM pg_attribute a
            WHERE a.attrelid = relation AND a.attnum > 0 AND NOT a.attisdropped
              AND (a.attgenerated = 'v'
                   OR a.attgenerated = 's' AND current_setting('server_version_num')::integer < 180000));
END
$body$;

-- Tell the reader of the stream something, in the place where it happens.
-- Sealed, for anybody may write there.
CREATE OR REPLACE FUNCTION dyda.tell(what jsonb) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
    PERFORM pg_current_xact_id();
    PERFORM pg_logical_emit_message(true, 'dyda', convert_to(dyda.seal(what::text) || what::text, 'UTF8'));
END
$body$;

-- That a table is part of a watched relation, and what that relation's columns are.
CREATE OR REPLACE FUNCTION dyda.tell_member(relation oid, watched oid, was oid) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
    PERFORM dyda.tell(jsonb_build_object(
        'op', 'M', 'root', watched::bigint, 'relid', relation::bigint, 'was', was::bigint,
        'columns', (SELECT coalesce(jsonb_agg(jsonb_build_array(k.number, k.name)), '[]')
                    FROM dyda.columns(ARRAY[watched]) k)));
END
$body$;

CREATE OR REPLACE FUNCTION dyda.tell_all(watched oid) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
    PERFORM dyda.tell_member(m.relid, watched, watched) FROM dyda.member m WHERE m.root = watched;
END
$body$;

-- A gap that is open until every transaction has ended that may have begun before now.
CREATE OR REPLACE FUNCTION dyda.forward_open_gap() RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
    PERFORM setval('dyda.gap_until',
                   greatest((SELECT u.last_value FROM dyda.gap_until u), pg_current_xact_id()::text::bigint));
    PERFORM dyda.forward_gap();
END
$body$;

-- Entries of the log about schema changes and truncations, told in the stream between the rows. (The log keeps them too: there
-- they can be asked for.)
CREATE OR REPLACE FUNCTION dyda.announce() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
    PERFORM dyda.tell(jsonb_build_object('op', NEW.op, 'root', NEW.root::bigint, 'relid', NEW.relid::bigint,
                                         'image', NEW.image));
    RETURN NEW;
END
$body$;

-- Put a table's rows into the log, whole. First the identity: a published table without one makes its writers fail. Returns
-- whether anything was to be done.
CREATE OR REPLACE FUNCTION dyda.publish(relation oid, watched oid) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
    shown text;
    kind "char";
    identity "char";
BEGIN
    SELECT format('%I.%I', n.nspname, c.relname), c.relkind, c.relreplident INTO STRICT shown, kind, identity
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = relation;
    IF kind = 'p' OR dyda.is_published(relation) THEN
        RETURN false;
    END IF;
    -- Whoever writes now writes rows that are in no stream: he must have ended before anybody reads the table.
    EXECUTE format('LOCK TABLE ONLY %s IN SHARE ROW EXCLUSIVE MODE', shown);
    IF identity <> 'f' THEN
        INSERT INTO dyda.identity (relid, kind, index)
        VALUES (relation, identity, (SELECT i.indexrelid FROM pg_index i WHERE i.indrelid = relation AND i.indisreplident))
        ON CONFLICT DO NOTHING;
        EXECUTE format('ALTER TABLE ONLY %s REPLICA IDENTITY FULL', shown);
    END IF;
    IF EXISTS (SELECT FROM pg_publication p JOIN pg_publication_rel r ON r.prpubid = p.oid
               WHERE r.prrelid = relation AND p.pubname = 'dyda_capture') THEN  -- somebody may have left out rows or columns
        EXECUTE format('ALTER PUBLICATION dyda_capture DROP TABLE ONLY %s', shown);
    END IF;
    EXECUTE format('ALTER PUBLICATION dyda_capture ADD TABLE ONLY %s', shown);
    RETURN true;
END
$body$;

-- The opposite; the table gets back the identity that it had.
CREATE OR REPLACE FUNCTION dyda.withdraw(relation oid) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
    shown text;
    restored text;
BEGIN
    SELECT format('%I.%I', n.nspname, c.relname) INTO shown
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = relation;
    IF shown IS NOT NULL AND EXISTS (SELECT FROM pg_publication p JOIN pg_publication_rel r ON r.prpubid = p.oid
                                     WHERE r.prrelid = relation AND p.pubname = 'dyda_capture') THEN
        EXECUTE format('ALTER PUBLICATION dyda_capture DROP TABLE ONLY %s', shown);
    END IF;
    restored := dyda.former_identity(relation);
    IF shown IS NOT NULL AND restored IS NOT NULL THEN
        EXECUTE format('ALTER TABLE ONLY %s REPLICA IDENTITY %s', shown, restored);
    END IF;
    DELETE FROM dyda.identity i WHERE i.relid = relation;
END
$body$;

-- As REPLICA IDENTITY names it; null: it was full, or somebody has changed it since.
CREATE OR REPLACE FUNCTION dyda.former_identity(relation oid) RETURNS text
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
    RETURN (SELECT CASE WHEN i.kind = 'n' THEN 'NOTHING'
                        WHEN i.kind = 'i' AND x.relname IS NOT NULL THEN format('USING INDEX %I', x.relname)
                        ELSE 'DEFAULT' END
            FROM dyda.identity i JOIN pg_class c ON c.oid = i.relid LEFT JOIN pg_class x ON x.oid = i.index
            WHERE i.relid = relation AND c.relreplident = 'f');
END
$body$;

-- The triggers that capture a table as part of the watched relation; four, if all is well. Where rows are captured from the
-- write-ahead log, three of them stand for its being published.
CREATE OR REPLACE FUNCTION dyda.capturing(relation oid, watched oid) RETURNS SETOF name
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
    RETURN QUERY
        SELECT t.tgname FROM pg_trigger t
        WHERE t.tgrelid = relation AND t.tgenabled = 'A' AND t.tgfoid = 'dyda.capture()'::regprocedure
          AND dyda.root_of(t.tgrelid, t.tgargs) = watched AND (t.tgname = 'dyda_truncate' OR NOT dyda.by_wal());
    IF dyda.by_wal() AND dyda.is_published(relation) THEN
        RETURN QUERY SELECT unnest(ARRAY['dyda_insert', 'dyda_update', 'dyda_delete']::name[]);
    END IF;
END
$body$;

-- Capture one table as part of the watched relation. Does nothing where that is complete, so that the triggers' catalog rows
-- (part of the fingerprint, rule C5) stay the same.
CREATE OR REPLACE FUNCTION dyda.capture_table(relation oid, watched oid) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
    told text := current_setting('dyda.quiet', true);
    by_wal boolean := dyda.by_wal();
    changed boolean := false;
    shown text;
    made text[] := '{}';
    event record;
BEGIN
    SELECT format('%I.%I', n.nspname, c.relname) INTO STRICT shown
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = relation;
    PERFORM dyda.be_quiet();
    IF by_wal THEN
        IF dyda.unpublishable(relation) IS NOT NULL THEN
            PERFORM dyda.withdraw(relation);
            PERFORM dyda.mark_gap();
            PERFORM set_config('dyda.quiet', coalesce(told, ''), true);
            RETURN;  -- its fingerprint says that it is not captured
        END IF;
        changed := dyda.publish(relation, watched);
        PERFORM dyda.drop_triggers(relation, false);  -- of the time when rows were captured by triggers
    END IF;
    FOR event IN
        SELECT e.*, EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = relation AND t.tgname = e.name) AS there
        FROM (VALUES
            ('dyda_insert', 'INSERT', 'REFERENCING NEW TABLE AS "dyda new"'),
            ('dyda_update', 'UPDATE', 'REFERENCING OLD TABLE AS "dyda old" NEW TABLE AS "dyda new"'),
            ('dyda_delete', 'DELETE', 'REFERENCING OLD TABLE AS "dyda old"'),
            ('dyda_truncate', 'TRUNCATE', '')) AS e (name, event, referencing)
        WHERE e.name NOT IN (SELECT dyda.capturing(relation, watched)) AND (e.name = 'dyda_truncate' OR NOT by_wal)
    LOOP
        IF event.there THEN  -- not IF EXISTS, which would send a notice to the application
            EXECUTE format('DROP TRIGGER %I ON %s', event.name, shown);
        END IF;
        EXECUTE format('CREATE TRIGGER %I AFTER %s ON %s %s FOR EACH STATEMENT EXECUTE FUNCTION dyda.capture(%L)',
                       event.name, event.event, shown, event.referencing, watched);
        made := made || format('ENABLE ALWAYS TRIGGER %I', event.name);
    END LOOP;
    IF made <> '{}' THEN
        EXECUTE format('ALTER TABLE ONLY %s %s', shown, array_to_string(made, ', '));
    END IF;
    -- Each statement resolves names again: if another table took this one's name meanwhile, start again.
    IF (SELECT count(*) FROM dyda.capturing(relation, watched)) < 4 THEN
        RAISE EXCEPTION 'table % was renamed while capture was attached', shown USING ERRCODE = 'serialization_failure';
    END IF;
    IF by_wal AND (changed OR made <> '{}') THEN
        PERFORM dyda.tell_member(relation, watched, dyda.former_root(relation));
    END IF;
    PERFORM dyda.keep_member(relation, watched);
    PERFORM dyda.let_read(relation, true);
    PERFORM set_config('dyda.quiet', coalesce(told, ''), true);
END
$body$;

-- Stop capturing one table, if it still exists.
CREATE OR REPLACE FUNCTION dyda.release_table(relation oid) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
    IF dyda.by_wal() THEN
        PERFORM dyda.tell(jsonb_build_object(
            'op', 'R', 'root', coalesce(dyda.former_root(relation), 0)::bigint, 'relid', relation::bigint));
        PERFORM dyda.withdraw(relation);
    END IF;
    PERFORM dyda.drop_triggers(relation, true);
    PERFORM dyda.keep_member(relation, NULL);
    PERFORM dyda.let_read(relation, false);
END
$body$;

-- Rows written through this table cannot be captured, and PostgreSQL refuses statements that would have them captured.
-- TRUNCATE stays captured, so the table stays known.
CREATE OR REPLACE FUNCTION dyda.suspend_table(relation oid) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
    PERFORM dyda.drop_triggers(relation, false);
END
$body$;

CREATE OR REPLACE FUNCTION dyda.drop_triggers(relation oid, truncate_too boolean) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
    told text := current_setting('dyda.quiet', true);
    found record;
BEGIN
    PERFORM dyda.be_quiet();
    FOR found IN
        SELECT t.tgname, format('%I.%I', n.nspname, c.relname) AS shown
        FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE t.tgrelid = relation AND t.tgfoid = 'dyda.capture()'::regprocedure
          AND (truncate_too OR t.tgoldtable IS NOT NULL OR t.tgnewtable IS NOT NULL)
    LOOP
        EXECUTE format('DROP TRIGGER %I ON %s', found.tgname, found.shown);
    END LOOP;
    PERFORM set_config('dyda.quiet', coalesce(told, ''), true);
END
$body$;

-- Record which watched relation a table is part of (null: of none). Returns whether that is new.
-- What is kept in schema dyda is never read in a SERIALIZABLE transaction, only written (ON CONFLICT finds its row without a
-- predicate lock): otherwise two transactions that change unrelated tables would each have read what the other wrote, and one
-- would fail. In others not even a row lock is taken if nothing changes: a transaction that changed another part of the same
-- relation may hold it. The next attach deletes rows of no relation.
CREATE OR REPLACE FUNCTION dyda.keep_member(relation oid, watched oid) RETURNS boolean
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
    IF current_setting('transaction_isolation') <> 'serializable' THEN
        IF watched IS NULL THEN
            DELETE FROM dyda.member m WHERE m.relid = relation;
            RETURN FOUND;
        ELSIF EXISTS (SELECT FROM dyda.member m WHERE m.relid = relation AND m.root = watched) THEN
            RETURN false;
        END IF;
    END IF;
    INSERT INTO dyda.member AS m (relid, root) VALUES (relation, coalesce(watched, 0))
    ON CONFLICT (relid) DO UPDATE SET root = excluded.root, lasting = NULL, writers = NULL WHERE m.root <> excluded.root;
    RETURN FOUND;
END
$body$;
