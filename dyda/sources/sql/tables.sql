-- tables: what DyDa keeps at a source. Run by attach, in one transaction, by a role that may create schema dyda. Idempotent.
-- A log that had to be created again is a gap.

CREATE SEQUENCE IF NOT EXISTS dyda.log_sequence CACHE 1;

-- The log's size is checked when its sequence reaches this number (dyda.measure): at the next entry after attach.
CREATE SEQUENCE IF NOT EXISTS dyda.measure_at CACHE 1;
SELECT setval('dyda.measure_at', 1);

-- The newest transaction that left a gap without the lock that shows it is open.
CREATE SEQUENCE IF NOT EXISTS dyda.gap_until CACHE 1;

-- The database that was attached (dyda.here): capture is inactive in a copy. A sequence, because reading one shows the
-- present, however old the snapshot is.
CREATE SEQUENCE IF NOT EXISTS dyda.home_number CACHE 1;

-- Up to where (as a number) the slot's stream of the write-ahead log has been read. A slot that is beyond that is not the one
-- that we left: rows would be missing.
CREATE SEQUENCE IF NOT EXISTS dyda.flushed CACHE 1;

-- The gap counter never repeats a value, not even after everything was dropped and attached again: it starts at the clock.
DO $do$
BEGIN
    IF to_regclass('dyda.gap') IS NULL THEN
        EXECUTE format('CREATE SEQUENCE dyda.gap CACHE 1 START %s',
                       (extract(epoch FROM clock_timestamp()) * 1000000)::bigint);
    END IF;
    -- Known to capture alone: it seals what capture keeps in a session's parameters (dyda.seal). A sequence, because reading
    -- one never waits; not its start value, which everybody can look up.
    IF to_regclass('dyda.key') IS NULL THEN
        CREATE SEQUENCE dyda.key;
        PERFORM setval('dyda.key', 1 + ('x' || left(replace(gen_random_uuid()::text, '-', ''), 12))::bit(48)::bigint * 4096
                                   + ('x' || right(gen_random_uuid()::text, 3))::bit(12)::bigint);
    END IF;
END
$do$;

-- The watched relations, under the names they were asked for by.
CREATE TABLE IF NOT EXISTS dyda.watched (
    root        oid PRIMARY KEY,
    schema_name text NOT NULL,
    table_name  text NOT NULL
);

-- The table last seen under each watched name: if another one has it now, it has taken the name.
CREATE TABLE IF NOT EXISTS dyda.holder (
    schema_name text NOT NULL,
    table_name  text NOT NULL,
    root        oid NOT NULL,
    PRIMARY KEY (schema_name, table_name)
);

-- Every captured table: a watched relation or one below it (rule C2). lasting, writers: its part of the fingerprint when last
-- looked at (null: never), and the transactions that wrote that. known_*: the values before, for whoever wrote them last
-- (dyda.keep_member says why they are not read first).
CREATE TABLE IF NOT EXISTS dyda.member (
    relid         oid PRIMARY KEY,
    root          oid NOT NULL,
    lasting       text,
    writers       bigint[],
    known_lasting text,
    known_writers bigint[]
);

-- Each watched relation after the last command that was seen (dyda.describe; 'null': it was gone). unseen: attach found it
-- changed, and no entry of the log has said so yet. known*: as above.
CREATE TABLE IF NOT EXISTS dyda.described (
    root         oid PRIMARY KEY,
    description  jsonb NOT NULL,
    unseen       boolean NOT NULL DEFAULT false,
    known        jsonb,
    known_unseen boolean
);

-- The replica identities that tables had before the write-ahead log was to have whole rows of them.
CREATE TABLE IF NOT EXISTS dyda.identity (
    relid oid PRIMARY KEY,
    kind  "char" NOT NULL,
    index oid
);

-- Marks of installations (dyda.leave_mark), at most about a hundred: a source without the last one has lost data that was read.
CREATE TABLE IF NOT EXISTS dyda.mark (
    mark   text PRIMARY KEY,
    number bigint NOT NULL DEFAULT nextval('dyda.log_sequence')
);

-- op: I row inserted, D row deleted, T truncated, S schema changed.
-- shape: see dyda.places (an older DyDa's: a json array of arrays, the numbers in the first; only in a statement's first row).
-- image: the row as text; for S a json object, see dyda.observe; for T 'whole' if nothing of the watched relation was left.
-- Created only if missing: CREATE INDEX IF NOT EXISTS locks the log even if the index exists, and writers that wait leave gaps.
DO $do$
BEGIN
    -- A log that somebody altered is useless: a new one, and a gap.
    IF to_regclass('dyda.log') IS NOT NULL AND 'seq+ xid+ op root relid shape image' IS DISTINCT FROM (
        SELECT string_agg(a.attname || CASE WHEN a.atthasdef THEN '+' ELSE '' END, ' ' ORDER BY a.attnum)
        FROM pg_attribute a WHERE a.attrelid = to_regclass('dyda.log') AND a.attnum > 0) THEN
        DROP TABLE dyda.log;
    END IF;
    -- Sources that an older DyDa attached.
    IF NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = 'dyda.member'::regclass AND a.attname = 'writers') THEN
        ALTER TABLE dyda.member ADD COLUMN lasting text, ADD COLUMN writers bigint[];
    END IF;
    IF NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = 'dyda.member'::regclass AND a.attname = 'known_writers') THEN
        ALTER TABLE dyda.member ADD COLUMN known_lasting text, ADD COLUMN known_writers bigint[];
    END IF;
    IF NOT EXISTS (SELECT FROM pg_attribute a
                   WHERE a.attrelid = 'dyda.described'::regclass AND a.attname = 'known_unseen') THEN
        ALTER TABLE dyda.described ADD COLUMN known jsonb, ADD COLUMN known_unseen boolean;
    END IF;
    INSERT INTO dyda.holder (schema_name, table_name, root)
    SELECT w.schema_name, w.table_name, max(w.root) FROM dyda.watched w GROUP BY w.schema_name, w.table_name
    ON CONFLICT DO NOTHING;
    IF to_regclass('dyda.log') IS NULL THEN
        CREATE TABLE dyda.log (
            seq   bigint NOT NULL DEFAULT nextval('dyda.log_sequence'),
            xid   xid8 NOT NULL DEFAULT pg_current_xact_id(),
            op    "char" NOT NULL,
            root  oid NOT NULL,
            relid oid NOT NULL,
            shape text,
            image text
        ) -- VACUUM must not truncate: its lock could cost a writer its 40 ms; see dyda.shrink
          WITH (vacuum_truncate = off, toast.vacuum_truncate = off,
                autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000,
                autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 10000);
        CREATE INDEX log_xid ON dyda.log (xid);
        PERFORM nextval('dyda.gap');
    END IF;
    IF to_regclass('dyda.log_schema') IS NULL THEN
        -- Few entries are of these kinds, and they are read often.
        CREATE INDEX log_schema ON dyda.log (xid) WHERE op IN ('S', 'T');
    END IF;
    IF to_regclass('dyda.consumer') IS NULL THEN
        -- The consumer (rule C7): one row.
        CREATE TABLE dyda.consumer (
            project     text NOT NULL,
            log_limit   bigint NOT NULL,
            attached_at timestamptz NOT NULL DEFAULT now(),
            home        text  -- dyda.home() of the database that was attached
        );
        CREATE UNIQUE INDEX consumer_is_one ON dyda.consumer ((true));
    ELSIF NOT EXISTS (SELECT FROM pg_attribute a
                      WHERE a.attrelid = 'dyda.consumer'::regclass AND a.attname = 'home') THEN
        ALTER TABLE dyda.consumer ADD COLUMN home text;  -- an older DyDa attached
    END IF;
END
$do$;
