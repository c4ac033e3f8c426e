-- state_rows: the rows that a state delivers under a condition, as texts, and how often. The condition is an IN, so that
-- a row is found once, however many texts of the wanted values mean it.
SELECT {columns} {multiplicity} AS n
FROM {extent} AS e
WHERE {condition} AND {multiplicity} > 0
