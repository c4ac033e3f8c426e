-- observer: a record of every commit that moves a view, made by that commit. {schema}: where readers look.
CREATE SCHEMA IF NOT EXISTS observed;

CREATE TABLE IF NOT EXISTS observed.commit (
    number      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    xid         xid8 UNIQUE NOT NULL,
    at          timestamptz NOT NULL,
    backend     integer NOT NULL,
    holder      integer,
    unreachable text[] NOT NULL,
    unit        text,
    waiting     jsonb NOT NULL DEFAULT '[]',
    held        jsonb NOT NULL DEFAULT '[]',
    views       jsonb NOT NULL
);
-- Messages that left the queue while they waited for an operator, and the commit that took them out.
CREATE TABLE IF NOT EXISTS observed.taken (at xid8 NOT NULL, source text NOT NULL, xid bigint NOT NULL, state text NOT NULL);
CREATE TABLE IF NOT EXISTS observed.bag (digest text PRIMARY KEY, rows text[] NOT NULL);

CREATE OR REPLACE FUNCTION observed.look() RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET extra_float_digits = 1 SET IntervalStyle = postgres SET DateStyle = 'ISO, YMD' SET TimeZone = 'UTC'
SET bytea_output = hex
AS $$
DECLARE
    one    record;
    shown  regclass;
    lines  text[];
    name   text;
    views  jsonb := '{}';
BEGIN
    IF EXISTS (SELECT FROM observed.commit c WHERE c.xid = pg_current_xact_id()) THEN
        RETURN;
    END IF;
    LOCK TABLE observed.commit IN EXCLUSIVE MODE;  -- numbers in commit order, whoever else may write
    FOR one IN
        SELECT v.name, v.state, v.cause, v.version, w.sql,
               (SELECT coalesce(jsonb_object_agg(p.source, p.position), '{}') FROM dyda.position p
                WHERE p.view = v.name) AS positions
        FROM dyda.view v JOIN dyda.view_version w ON w.view = v.name AND w.version = v.version
    LOOP
        shown := to_regclass(format('%I.%I', '{schema}', one.name));
        CONTINUE WHEN shown IS NULL;
        EXECUTE format('SELECT coalesce(array_agg("#row"::text), ''{}'') FROM %I.%I AS "#row"', '{schema}', one.name)
        INTO lines;
        SELECT {digest} INTO name FROM unnest(lines) AS line;
        INSERT INTO observed.bag VALUES (name, lines) ON CONFLICT DO NOTHING;
        views := views || jsonb_build_object(one.name, jsonb_build_object(
            'state', one.state, 'cause', one.cause, 'version', one.version, 'definition', one.sql, 'positions', one.positions,
            'rows', name,
            'unique_on', (SELECT coalesce(jsonb_agg(DISTINCT pg_get_indexdef(i.indexrelid)), '[]')
                          FROM pg_rewrite r JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid
                          JOIN pg_index i ON d.refclassid = 'pg_class'::regclass AND i.indrelid = d.refobjid
                          WHERE r.ev_class = shown AND i.indisunique)));
    END LOOP;
    WITH undecided AS (
        SELECT m.source, m.xid, m.state FROM dyda.message m WHERE m.state IN ('held', 'approval')
        UNION ALL
        SELECT t.source, t.xid, t.state FROM observed.taken t WHERE t.at = pg_current_xact_id()
    )
    INSERT INTO observed.commit (xid, at, backend, holder, unreachable, unit, waiting, held, views)
    SELECT pg_current_xact_id(), clock_timestamp(), pg_backend_pid(),
           (SELECT d.backend FROM dyda.daemon d ORDER BY d.fence DESC LIMIT 1),
           ARRAY(SELECT s.name FROM dyda.source s WHERE s.reachable = false),
           (SELECT u.kind FROM dyda.unit u WHERE u.xmin = pg_current_xact_id()::xid ORDER BY u.id DESC LIMIT 1),
           (SELECT coalesce(jsonb_agg(jsonb_build_array(m.source, m.xid)), '[]') FROM undecided m),
           (SELECT coalesce(jsonb_agg(jsonb_build_array(m.source, m.xid)), '[]') FROM undecided m
            WHERE m.state = 'held'), views;
END
$$;

CREATE OR REPLACE FUNCTION observed.on_commit() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$ BEGIN PERFORM observed.look(); RETURN NULL; END $$;

CREATE OR REPLACE FUNCTION observed.on_taken() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    INSERT INTO observed.taken VALUES (pg_current_xact_id(), OLD.source, OLD.xid, OLD.state);
    RETURN NULL;
END
$$;

CREATE TRIGGER observed AFTER DELETE ON dyda.message
    FOR EACH ROW WHEN (OLD.state IN ('held', 'approval')) EXECUTE FUNCTION observed.on_taken();
CREATE CONSTRAINT TRIGGER observed AFTER INSERT OR DELETE OR UPDATE OF state, version ON dyda.view
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION observed.on_commit();
CREATE CONSTRAINT TRIGGER observed AFTER INSERT OR DELETE OR UPDATE ON dyda.view_version
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION observed.on_commit();
CREATE CONSTRAINT TRIGGER observed AFTER INSERT OR DELETE OR UPDATE ON dyda.position
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION observed.on_commit();

SELECT observed.look();
