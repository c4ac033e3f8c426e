"""Keys that travel along join edges: normal forms, distinct values, and the predicate "this row has such a key".

The predicate is ours, not the source's. A source may answer with more rows than asked for (its equality may be wider:
1.0 = 1.00, a collation that ignores case), never with fewer (rule R4); what it answers is filtered here. So a fetched
row, a captured row and a compensated row are covered or not by one and the same test. Normal forms are as wide as
Spark's equality and no wider than the source's:

    Spark's =   ⊆   equal normal forms   ⊆   the source's =
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["KeyPredicate", "KeySet", "distinct_keys"]

_RANGES = {"smallint": 2**15, "integer": 2**31, "bigint": 2**63}


def normal_form(texts: pa.ChunkedArray, family: str) -> pa.ChunkedArray:
    """Canonical texts that Spark holds equal become the same text."""
    if family == "numeric":
        texts = pc.replace_substring_regex(texts, r"^(-?[0-9]+\.[0-9]*?)0+$", r"\1")
        return pc.replace_substring_regex(texts, r"\.$", "")
    if family in ("real", "double"):
        return pc.if_else(pc.equal(texts, "-0"), "0", texts)
    return texts


@dataclass(frozen=True)
class KeySet:
    """Distinct keys without NULLs, as text columns named like the target's key columns."""

    values: pa.Table

    def __len__(self) -> int:
        return int(self.values.num_rows)


def distinct_keys(
    rows: Sequence[pa.Table],
    columns: Sequence[str],
    target: Sequence[str],
    families: Sequence[str],
    types: Sequence[str],
) -> KeySet:
    """The keys that `rows` carry in `columns`, named for the target. NULL equals nothing, so it never travels."""
    names = [f"k{i}" for i in range(len(columns))]
    parts = []
    for table in rows:
        arrays = [normal_form(table.column(column), family) for column, family in zip(columns, families, strict=True)]
        parts.append(pa.Table.from_arrays(arrays, names=names))
    keys = pa.concat_tables(parts) if parts else pa.table({name: pa.array([], pa.string()) for name in names})
    keys = keys.drop_null().group_by(names, use_threads=False).aggregate([])
    for name, bare_type in zip(names, types, strict=True):
        if bare_type in ("smallint", "integer"):
            # A key that the target's type cannot hold reaches no row, and a source would fail to read it.
            number = pc.cast(keys.column(name), pa.int64())
            limit = _RANGES[bare_type]
            keys = keys.filter(pc.and_(pc.greater_equal(number, -limit), pc.less(number, limit)))
    return KeySet(keys.select(names).rename_columns(list(target)))


@dataclass(frozen=True)
class KeyPredicate:
    """Whether a row of the target has one of the keys: what one hop covers (rules W4, W5)."""

    columns: tuple[str, ...]
    families: tuple[str, ...]
    keys: KeySet

    def __call__(self, table: pa.Table) -> pa.ChunkedArray:
        """A mask without NULLs over `table` (rule R5: a NULL key is in no set)."""
        mine = _composite([normal_form(table.column(c), f) for c, f in zip(self.columns, self.families, strict=True)])
        asked = _composite([self.keys.values.column(i) for i in range(len(self.columns))])
        found = pc.is_in(mine, value_set=asked.combine_chunks())
        return pc.and_(found, pc.is_valid(mine))


def _composite(arrays: list[pa.ChunkedArray]) -> pa.ChunkedArray:
    """One text per key tuple, NULL if any part is. Lengths in front keep ('a','bc') and ('ab','c') apart."""
    if len(arrays) == 1:
        return arrays[0]
    parts = []
    for array in arrays:
        length = pc.cast(pc.utf8_length(array), pa.string())
        parts.append(pc.binary_join_element_wise(length, array, ":"))
    return pc.binary_join_element_wise(*parts, "")
