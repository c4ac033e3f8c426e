-- state_rows: what a state delivers for the tuples in a table of values: texts and how often. A tuple meets a row at most
-- once per distinct value, but two texts may be one value, so that the values are made distinct as values.
SELECT {columns} {multiplicity} AS n
FROM {extent} AS e
WHERE ({key}) IN (SELECT {casts} FROM {values} AS v) AND {multiplicity} > 0
