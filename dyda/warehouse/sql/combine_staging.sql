-- combine_staging: the state rows of a step into a staging table, from all of its entries.
-- Returns how many rows or groups would have a negative count, and one of those.
WITH whole AS MATERIALIZED (
    {whole}
), added AS (
    INSERT INTO {target} ({columns}, n) SELECT {columns}, n FROM whole WHERE n > 0 AND NOT negative
)
SELECT count(*) FILTER (WHERE negative), min(ROW({columns})::text) FILTER (WHERE negative) FROM whole
