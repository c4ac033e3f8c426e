-- reader: the only way to read tables whose owners could set traps. When a query is planned or run, PostgreSQL runs what an
-- owner wrote (indexes, statistics, partition keys, casts, operators) with the caller's rights. Here these are the reader
-- role's: it owns this function, may read what is watched and nothing else, and nobody gets from a SECURITY DEFINER function
-- back to the caller's role. Run by attach, in the transaction that gives it to that role: nobody else must ever own it.

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
