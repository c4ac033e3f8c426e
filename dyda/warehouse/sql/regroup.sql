-- regroup: state rows of fewer keys or fewer numbers into a staging table, from the rows of a stored state.
-- Groups that have become one are added up; nothing but the state is read.
INSERT INTO {target} ({columns}, n)
SELECT {key} AS c1{texts}, 1 FROM (SELECT {items} FROM {extent} AS e GROUP BY {keys}) AS grouped
