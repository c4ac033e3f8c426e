-- reading: what a role needs that only reads and acknowledges. These functions run with the rights of capture's owner, see the
-- caller's snapshot, and show nothing but DyDa's own log.

-- The counter first, then the locks (see dyda.mark_gap), hence plpgsql and VOLATILE.
CREATE OR REPLACE FUNCTION dyda.state(
    OUT project text, OUT gap bigint, OUT unsettled boolean, OUT system_identifier text, OUT timeline text,
    OUT event_triggers boolean, OUT commit_order boolean, OUT log_file oid)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
    SELECT last_value INTO STRICT gap FROM dyda.gap;
    SELECT EXISTS (SELECT FROM pg_locks l JOIN pg_database d ON d.oid = l.database
                   WHERE d.datname = current_database() AND l.locktype = 'relation'
                     AND l.relation = 'dyda.mark'::regclass AND l.mode = 'RowShareLock')
        OR (SELECT u.last_value >= pg_snapshot_xmin(pg_current_snapshot())::text::bigint FROM dyda.gap_until u)
        INTO unsettled;
    SELECT c.project INTO project FROM dyda.consumer c;
    BEGIN
        SELECT s.system_identifier::text INTO system_identifier FROM pg_control_system() s;
    EXCEPTION WHEN insufficient_privilege THEN
        system_identifier := 'unknown';
    END;
    timeline := CASE WHEN pg_is_in_recovery() THEN 'standby' ELSE left(pg_walfile_name(pg_current_wal_lsn()), 8) END;
    event_triggers := (SELECT count(*) = 3 FROM pg_event_trigger e JOIN pg_proc p ON p.oid = e.evtfoid
                       JOIN pg_namespace n ON n.oid = p.pronamespace
                       WHERE n.nspname = 'dyda' AND e.evtenabled = 'A');
    commit_order := current_setting('track_commit_timestamp')::boolean;
    log_file := pg_relation_filenode('dyda.log'::regclass);
    PERFORM 1 FROM dyda.log LIMIT 1;
END
$body$;

-- Log entries that the caller's snapshot shows and `after` does not cover. All transactions below its xmin are covered, so the
-- index can skip what is acknowledged but not yet vacuumed, and a poll of a long log what the last one has read. Without
-- statistics PostgreSQL would guess that a third of the log is asked for, and read all of it.
CREATE OR REPLACE FUNCTION dyda.entries(after pg_snapshot)
RETURNS TABLE (seq bigint, xid xid8, op "char", root oid, relid oid, shape text, image text)
LANGUAGE sql STABLE SECURITY DEFINER
SET enable_seqscan = off
SET search_path = pg_catalog, pg_temp
AS $body$
    SELECT l.seq, l.xid, l.op, l.root, l.relid, l.shape, l.image
    FROM dyda.log l
    WHERE l.xid >= coalesce(pg_snapshot_xmin(after), '0'::xid8)
      AND (after IS NULL OR NOT pg_visible_in_snapshot(l.xid, after))
$body$;

-- The row images of some transactions, however many others wait.
CREATE OR REPLACE FUNCTION dyda.images_of(xids xid8[])
RETURNS TABLE (seq bigint, xid xid8, op "char", root oid, shape text, image text)
LANGUAGE sql STABLE SECURITY DEFINER
SET enable_seqscan = off
SET search_path = pg_catalog, pg_temp
AS $body$
    SELECT l.seq, l.xid, l.op, l.root, l.shape, l.image FROM dyda.log l WHERE l.xid = ANY (xids) AND l.op IN ('I', 'D')
$body$;

-- Schema changes and truncations among the entries: few, with an index of their own.
CREATE OR REPLACE FUNCTION dyda.schema_entries(after pg_snapshot)
RETURNS TABLE (seq bigint, xid xid8, op "char", root oid, image text)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $body$
    SELECT l.seq, l.xid, l.op, l.root, l.image
    FROM dyda.log l
    WHERE l.op IN ('S', 'T') AND l.xid >= coalesce(pg_snapshot_xmin(after), '0'::xid8)
      AND (after IS NULL OR NOT pg_visible_in_snapshot(l.xid, after))
$body$;

CREATE OR REPLACE FUNCTION dyda.schema_changed(since pg_snapshot) RETURNS boolean
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $body$
    SELECT EXISTS (SELECT FROM dyda.log l WHERE l.op IN ('S', 'T') AND l.op = 'S' AND l.xid >= pg_snapshot_xmin(since)
                   AND NOT pg_visible_in_snapshot(l.xid, since))
$body$;

-- The relations with schema changes in the log, each under the name it was asked for by, with the lasting fingerprint after
-- them (null: something went unseen since) and whether it still has that name.
CREATE OR REPLACE FUNCTION dyda.changed_relations()
RETURNS TABLE (root oid, schema_name text, table_name text, lasting text, there boolean)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $body$
    SELECT w.root, w.schema_name, w.table_name,
           CASE WHEN NOT EXISTS (SELECT FROM dyda.described d WHERE d.root = w.root AND d.unseen) THEN dyda.lasting(w.root) END,
           EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                   WHERE c.oid = w.root AND n.nspname = w.schema_name AND c.relname = w.table_name)
    FROM dyda.watched w
    WHERE w.root IN (SELECT l.root FROM dyda.log l WHERE l.op IN ('S', 'T') AND l.op = 'S')  -- as its index says it
$body$;

CREATE OR REPLACE FUNCTION dyda.watched_relations()
RETURNS TABLE (root oid, schema_name text, table_name text)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $body$ SELECT w.root, w.schema_name, w.table_name FROM dyda.watched w $body$;

-- The tables that are captured as parts of watched relations, and the columns of those, as the caller's snapshot has them.
CREATE OR REPLACE FUNCTION dyda.layout() RETURNS TABLE (relid oid, root oid, columns jsonb)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $body$
    SELECT m.relid, m.root, d.description -> 'columns' FROM dyda.member m JOIN dyda.described d ON d.root = m.root
$body$;

-- The watched relations that were changed without an entry, because no event trigger saw it. Of each table, what was kept when
-- capture last looked at it is compared with what it is now.
CREATE OR REPLACE FUNCTION dyda.unlogged() RETURNS SETOF oid
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
    roots oid[];
    relids oid[];
BEGIN
    SELECT coalesce(array_agg(t.root), '{}'), coalesce(array_agg(t.relid), '{}') INTO roots, relids
    FROM (SELECT d.root, c.oid FROM dyda.described d, dyda.tree(d.root) t JOIN pg_class c ON c.oid = t
          WHERE c.relpersistence <> 't') AS t (root, relid);
    RETURN QUERY
        SELECT t.root FROM unnest(roots, relids) AS t (root, relid)
        LEFT JOIN dyda.fingerprints(relids) f ON f.relid = t.relid
        LEFT JOIN dyda.member m ON m.relid = t.relid
        WHERE m.lasting IS DISTINCT FROM f.lasting
        UNION
        SELECT m.root FROM dyda.member m WHERE m.root IN (SELECT d.root FROM dyda.described d)
          AND NOT m.relid = ANY (relids);
END
$body$;

-- Log those now, as the event triggers would have done, and tell the reader of the stream what their tables are. Also a gap: rows
-- that were streamed meanwhile may have been taken for others. It is open until all have ended that may have written such rows.
CREATE OR REPLACE FUNCTION dyda.catch_up() RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '40ms'
AS $body$
DECLARE
    found oid;
BEGIN
    FOR found IN SELECT u FROM dyda.unlogged() u ORDER BY u LOOP
        PERFORM dyda.observe(found, 'ALTER TABLE', NULL, NULL);
        PERFORM dyda.tell_all(found);
    END LOOP;
    PERFORM dyda.forward_open_gap();
END
$body$;

-- Up to where the slot was read, asked and kept. `anew`: the slot begins there.
CREATE OR REPLACE FUNCTION dyda.flushed_to() RETURNS bigint
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $body$ SELECT f.last_value FROM dyda.flushed f $body$;

CREATE OR REPLACE FUNCTION dyda.keep_flushed(lsn bigint, anew boolean) RETURNS void
LANGUAGE sql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $body$ SELECT setval('dyda.flushed', CASE WHEN anew THEN lsn ELSE greatest(lsn, (SELECT f.last_value FROM dyda.flushed f)) END) $body$;

-- Which of these messages in the stream are capture's own: anybody may write some. Each with its transaction.
CREATE OR REPLACE FUNCTION dyda.are_sealed(xids text[], messages text[]) RETURNS SETOF boolean
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $body$
    SELECT left(m.message, 32) = md5(k.last_value || ' ' || md5(k.last_value || ' ' || m.xid || ' ' || substr(m.message, 33)))
    FROM dyda.key k, unnest(xids, messages) WITH ORDINALITY AS m (xid, message, place) ORDER BY m.place
$body$;

-- Also returns the size of the log's files, so that the caller knows whether to call dyda.shrink.
CREATE OR REPLACE FUNCTION dyda.acknowledge(consumer text, done pg_snapshot, OUT deleted bigint, OUT size bigint)
LANGUAGE plpgsql SECURITY DEFINER
SET enable_seqscan = off
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
    IF NOT EXISTS (SELECT FROM dyda.consumer c WHERE c.project = acknowledge.consumer) THEN
        RAISE EXCEPTION 'this log belongs to another project' USING ERRCODE = '55006';
    END IF;
    PERFORM dyda.be_quiet();  -- see dyda.log_changed
    DELETE FROM dyda.log l WHERE l.xid < pg_snapshot_xmax(done) AND pg_visible_in_snapshot(l.xid, done);
    GET DIAGNOSTICS deleted = ROW_COUNT;
    PERFORM set_config('dyda.quiet', '', true);
    size := pg_table_size('dyda.log'::regclass);
END
$body$;

-- Return a big empty log to the file system, so that its limit means live entries. Rule P6: every snapshot of ours, in any
-- process, holds the advisory lock shared; the table lock proves that no writer is active, and emptiness is checked under it.
-- Writers wait for that lock, so it is requested only for a moment, and again another time.
CREATE OR REPLACE FUNCTION dyda.shrink(more_than bigint) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '5ms'
AS $body$
BEGIN
    IF pg_table_size('dyda.log'::regclass) <= more_than THEN
        RETURN false;
    END IF;
    IF NOT pg_try_advisory_xact_lock(1685677153, 3) THEN
        RETURN false;
    END IF;
    LOCK TABLE dyda.log IN ACCESS EXCLUSIVE MODE;
    IF EXISTS (SELECT FROM dyda.log) THEN
        RETURN false;
    END IF;
    PERFORM dyda.be_quiet();
    TRUNCATE dyda.log;
    PERFORM set_config('dyda.quiet', '', true);
    RETURN true;
EXCEPTION WHEN lock_not_available THEN
    RETURN false;
END
$body$;
