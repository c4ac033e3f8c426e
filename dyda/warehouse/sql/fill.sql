-- fill: the first rows of a new extent, before it has a key. Negative counts fail its check.
INSERT INTO {extent} (hash, {columns}, count)
SELECT hash, {casts}, n FROM ({grouped}) AS entry
