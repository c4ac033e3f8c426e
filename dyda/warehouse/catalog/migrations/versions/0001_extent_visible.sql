-- extent_visible: true, or a serialization failure if the calling snapshot is older than the extent (I2).
-- Through such a snapshot the new extent reads as empty; STABLE makes the function look through the very snapshot that
-- the reader's statement uses. SECURITY DEFINER: readers have no rights on DyDa's own tables.
CREATE FUNCTION dyda.extent_visible(wanted bigint) RETURNS boolean
LANGUAGE plpgsql STABLE PARALLEL SAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF EXISTS (SELECT FROM dyda.extent WHERE id = wanted) THEN
        RETURN true;
    END IF;
    RAISE EXCEPTION USING
        ERRCODE = 'serialization_failure',
        MESSAGE = 'the definition of this view has changed since the transaction began',
        HINT = 'Run the transaction again.';
END
$$;
GRANT EXECUTE ON FUNCTION dyda.extent_visible(bigint) TO PUBLIC;
