-- layout: the tables that are captured as parts of watched relations, and the columns of those, as the snapshot has them.
SELECT l.relid::bigint, l.root::bigint, l.columns FROM dyda.layout() l
