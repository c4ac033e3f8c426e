-- move_positions: the positions of views, by compare-and-set; returns those of them that were where they were expected.
-- Nothing expected: the place must be free. Nothing new: it is removed. Each place occurs once.
WITH move AS MATERIALIZED (
    SELECT * FROM unnest(%(views)s::text[], %(sources)s::text[], %(expected)s::text[], %(new)s::text[])
        AS move (view, source, expected, new)
), moved AS (
    UPDATE dyda.position AS p SET position = move.new
    FROM move
    WHERE p.view = move.view AND p.source = move.source AND p.position = move.expected AND move.new IS NOT NULL
    RETURNING p.view, p.source
), left_behind AS (
    DELETE FROM dyda.position AS p USING move
    WHERE p.view = move.view AND p.source = move.source AND p.position = move.expected AND move.new IS NULL
    RETURNING p.view, p.source
), taken AS (
    INSERT INTO dyda.position (view, source, position)
    SELECT view, source, new FROM move WHERE expected IS NULL
    ON CONFLICT (view, source) DO NOTHING
    RETURNING view, source
)
SELECT view, source FROM moved
UNION ALL SELECT view, source FROM left_behind
UNION ALL SELECT view, source FROM taken
