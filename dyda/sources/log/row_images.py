"""Row images from the log: PostgreSQL's text of a whole row, parsed by Arrow's CSV reader.

    (1,"a b",,"x""y\\\\z")      quoted like CSV, with backslashes doubled; nothing between commas is NULL

Each entry carries its shape: which column of the watched relation each place holds, by number. A number survives
renaming, so an image written under an older name still lands in the right column; a child table's own order and extra
columns do not matter either.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from dyda.errors import BrokenUnit
from dyda.rows import parse_rows
from dyda.sources.adapter import LACKS, XID

__all__ = ["delivered_names", "joined_bytes", "places_of", "read_images", "stops"]

COUNT = "#count"
CHUNK = 256 * 2**20
"""Bytes of image text that are parsed at once."""


def delivered_names(columns: Sequence[str]) -> list[str]:
    """The names columns are delivered under: their own, but one that is called like DyDa's own gets another `#`."""
    return [f"#{name}" if name in (XID, COUNT) or name.startswith("##") else name for name in columns]


def read_images(
    source: str,
    entries: pa.Table,
    wanted: Mapping[int, tuple[str, Sequence[str], Mapping[str, int]]],
    *,
    partial: bool = False,
) -> dict[int, pa.Table]:
    """The images of each watched relation, in log order; those that lack a column only if `partial`, with LACKS.

    `entries` has seq, xid, op, root, shape, image as text, ordered by (xid, seq). `wanted` gives for each watched
    relation (by oid) its shown name, the columns asked for and the number of every column it has.
    """
    # An older DyDa's entries have it in the first row of each statement only.
    entries = entries.set_column(
        entries.column_names.index("shape"), "shape", pc.fill_null_forward(entries.column("shape"))
    )
    found = {}
    for root, (shown, columns, numbers) in wanted.items():
        own = entries.filter(
            pc.and_(
                pc.equal(entries.column("root"), str(root)),
                pc.is_in(entries.column("op"), value_set=pa.array(["I", "D"])),
            )
        )
        pieces = []
        for shape in pc.unique(own.column("shape")).to_pylist():
            alike = own.filter(pc.equal(own.column("shape"), shape))
            pieces.append(_parse(source, shown, alike, places_of(shape), columns, numbers, partial=partial))
        names = [*delivered_names(columns), *([LACKS] if partial else []), XID, COUNT]
        if not pieces:
            kinds = [pa.string()] * (len(names) - 2) + [pa.int64(), pa.int64()]
            found[root] = pa.Table.from_arrays([pa.array([], kind) for kind in kinds], names=names)
            continue
        places = [f"c{place}" for place in range(len(names) - 2)] + ["xid", "count", "seq"]
        table = pa.concat_tables([piece.rename_columns(places) for piece in pieces])
        table = table.take(pc.sort_indices(table.column("seq"))).drop_columns(["seq"])
        found[root] = table.rename_columns(names)
    return found


def places_of(shape: str) -> list[int]:
    """The numbers that a shape stands for: `1-3,7,0` (dyda.places), or the first of an older DyDa's JSON arrays."""
    if shape.startswith("["):
        return list(json.loads(shape)[0])
    places: list[int] = []
    for run in filter(None, shape.split(",")):
        first, _, last = run.partition("-")
        places += range(int(first), int(last or first) + 1)
    return places


def _parse(
    source: str,
    shown: str,
    entries: pa.Table,
    places: Sequence[int],
    columns: Sequence[str],
    numbers: Mapping[str, int],
    *,
    partial: bool,
) -> pa.Table:
    """The wanted columns of images that all have one shape, then what they lack if `partial`, xid, count and seq."""
    at = [places.index(numbers[name]) if numbers.get(name) in places else None for name in columns]
    lacking = [name for name, place in zip(delivered_names(columns), at, strict=True) if place is None]
    if lacking and not partial:
        raise BrokenUnit(source, frozenset({shown}), f"a logged row lacks {', '.join(lacking)}")
    rows = _split(entries.column("image"), len(places))
    counts = pc.if_else(pc.equal(entries.column("op"), "I"), pa.scalar(1, pa.int64()), pa.scalar(-1, pa.int64()))
    unknown = pa.nulls(len(entries), pa.string())
    arrays = [unknown if place is None else rows.column(place) for place in at]
    if partial:
        arrays.append(pa.repeat(pa.scalar(json.dumps(lacking)), len(entries)) if lacking else unknown)
    arrays += [pc.cast(entries.column("xid"), pa.int64()), counts, pc.cast(entries.column("seq"), pa.int64())]
    return pa.Table.from_arrays(arrays, names=[f"p{place}" for place in range(len(arrays))])


def _split(images: pa.ChunkedArray, width: int) -> pa.Table:
    """Row texts as `width` text columns."""
    names = [f"c{place}" for place in range(width)]
    texts = pc.cast(images, pa.large_binary())
    bare = pc.binary_slice(texts, 1, -1)
    lines = pc.binary_join_element_wise(bare, pa.scalar(b"", pa.large_binary()), pa.scalar(b"\n", pa.large_binary()))
    tables = []
    for chunk in lines.chunks:
        start = 0
        for stop in stops(pc.binary_length(chunk), CHUNK):
            tables.append(parse_rows(joined_bytes(chunk.slice(start, stop - start)), names, escape=True))
            start = stop
    if not tables:
        return parse_rows(pa.py_buffer(b""), names, escape=True)
    return pa.concat_tables(tables)


def stops(lengths: pa.Array | pa.ChunkedArray, most: int) -> list[int]:
    """Where to cut rows of these lengths so that no piece is longer than `most` by more than its first row."""
    if not len(lengths):
        return []
    total = pc.cumulative_sum(pc.cast(lengths, pa.int64()))
    piece = pc.divide(total, most)
    changes = pc.not_equal(piece[1:], piece[:-1])
    return [*(place + 1 for place in pc.indices_nonzero(changes).to_pylist()), len(lengths)]


def joined_bytes(lines: pa.LargeBinaryArray) -> pa.Buffer:
    """The values of a binary array, one after the other: already one piece of memory."""
    offsets = lines.buffers()[1]
    ends = pa.Array.from_buffers(pa.int64(), len(lines) + 1, [None, offsets], offset=lines.offset)
    first, last = ends[0].as_py(), ends[len(lines)].as_py()
    return lines.buffers()[2].slice(first, last - first)
