-- reader: the one way in which tables are read whose owners could lay traps. PostgreSQL evaluates what an owner wrote
-- (predicates and expressions of indexes, statistics, partition keys, casts, operators) when a query is planned or run, with
-- the rights of whoever asks. Here that is the reader role: it owns this function, and may read what is watched and nothing
-- else. Inside a SECURITY DEFINER function nobody gets back to the caller's role. Run by attach, in the transaction that
-- gives it to that role: it must never belong to anybody else.

CREATE OR REPLACE FUNCTION dyda.read(query text) RETURNS SETOF record
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
    -- A trap could replace this function, which its role owns, if it were allowed to write.
    IF current_setting('transaction_read_only') <> 'on' THEN
        RAISE EXCEPTION 'dyda.read needs a READ ONLY transaction' USING ERRCODE = 'active_sql_transaction';
    END IF;
    RETURN QUERY EXECUTE query;
END
$body$;

REVOKE ALL ON FUNCTION dyda.read(text) FROM PUBLIC;
