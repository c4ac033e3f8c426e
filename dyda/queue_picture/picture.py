"""What the picture shows: the dependency graph, cut into the units in which it is processed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from dyda.model.message import Change, DataUpdate, SchemaChange, Truncation, UpdateMessage
from dyda.model.printable import visible
from scheduler import Unit, UnitKind
from scheduler.graph import Drawing

__all__ = ["Block", "Caption", "Picture", "caption", "picture_of"]

KINDS = {UnitKind.DATA: "data", UnitKind.SCHEMA: "schema", UnitKind.MERGED: "merged", UnitKind.IDLE: "no work"}


@dataclass(frozen=True)
class Caption:
    """The two lines in a message's box."""

    title: str
    detail: str


@dataclass(frozen=True)
class Block:
    """A unit, or messages that wait. `merged` ones get a box around them."""

    label: str
    detail: str
    numbers: tuple[int, ...]
    merged: bool = False
    waits: bool = False


@dataclass(frozen=True)
class Picture:
    """All that the layout needs. Every message is in exactly one block; `left_out` counts those not shown."""

    drawing: Drawing
    blocks: tuple[Block, ...]
    captions: Mapping[int, Caption]
    left_out: int = 0


def picture_of(
    drawing: Drawing, units: Iterable[Unit], messages: Mapping[int, UpdateMessage], limit: int | None = None
) -> Picture:
    """The picture of a schedule's `drawing()` and `units()`; at most the first `limit` messages, in planned order."""
    blocks = [
        Block(f"unit {index}", KINDS[unit.kind], tuple(sorted(unit.numbers)), merged=unit.kind is UnitKind.MERGED)
        for index, unit in enumerate(units, 1)
    ]
    planned = {number for block in blocks for number in block.numbers}
    blocks += _waiting(drawing, planned)
    shown = _first(blocks, limit)
    kept = {number for block in shown for number in block.numbers}
    nodes = tuple(replace(node, source=visible(node.source)) for node in drawing.nodes if node.number in kept)
    return Picture(
        Drawing(
            nodes,
            tuple(edge for edge in drawing.edges if edge.before in kept and edge.after in kept),
            tuple(group for group in drawing.groups if kept.issuperset(group)),
        ),
        tuple(shown),
        {node.number: caption(messages[node.number]) for node in nodes},
        len(drawing.nodes) - len(nodes),
    )


def caption(message: UpdateMessage) -> Caption:
    """What it does, and to which relations; the lane shows the source."""
    done = dict.fromkeys(text for change in message.changes for text in _described(change))
    rows = f"{message.rows:,} row{'s' * (message.rows != 1)}" if message.rows or not done else ""
    relations = sorted(message.relations)
    names = [name.table if name.schema == "public" else f"{name.schema}.{name.table}" for name in relations]
    return Caption(visible(" + ".join([*done, *filter(None, [rows])])), visible(", ".join(names)))


def _described(change: Change) -> Iterable[str]:
    match change:
        case DataUpdate():
            return ()
        case Truncation():
            return ("TRUNCATE",)
        case SchemaChange(_, command, _, steps):
            return map(str, steps) if steps else (command,)


def _waiting(drawing: Drawing, planned: set[int]) -> list[Block]:
    """The messages that wait, in arrival order; merged messages together."""
    group_of = {number: group for group in drawing.groups for number in group}
    blocks: list[Block] = []
    seen: set[int] = set()
    for node in drawing.nodes:
        if node.number in planned or node.number in seen:
            continue
        group = group_of.get(node.number)
        seen.update(group or {node.number})
        if group is not None:
            blocks.append(Block("waits", "merged", group, merged=True, waits=True))
        elif blocks and not blocks[-1].merged:
            blocks[-1] = Block("waits", "", (*blocks[-1].numbers, node.number), waits=True)
        else:
            blocks.append(Block("waits", "", (node.number,), waits=True))
    return blocks


def _first(blocks: Sequence[Block], limit: int | None) -> list[Block]:
    """Whole blocks while there is room; a block that is not merged may be cut."""
    shown: list[Block] = []
    room = limit if limit is not None else sum(len(block.numbers) for block in blocks)
    for block in blocks:
        if room <= 0:
            break
        if not block.merged and len(block.numbers) > room:
            block = Block(block.label, block.detail, block.numbers[:room], waits=block.waits)
        shown.append(block)
        room -= len(block.numbers)
    return shown
