"""The dependency graph for people: what is drawn, and its rendering as text and in Graphviz's dot language.

Arrows point from what is processed first to what waits for it: semantic edges are solid, concurrency edges dashed,
merged messages share a box.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dyda.model.message import DataUpdate, MessageState
from dyda.model.printable import visible
from scheduler.deco import Plan
from scheduler.dependencies import EdgeKind
from scheduler.footprint import Footprint
from scheduler.needs import Entry
from scheduler.queue import numbers

__all__ = ["Drawing", "DrawnEdge", "DrawnNode", "dot", "draw", "text"]


@dataclass(frozen=True)
class DrawnNode:
    """A message. `kind` is `data`, `schema` or `mixed`."""

    number: int
    source: str
    label: str
    kind: str
    state: MessageState
    concerned: bool


@dataclass(frozen=True)
class DrawnEdge:
    """Message `after` waits for message `before`."""

    before: int
    after: int
    kind: EdgeKind
    reason: str


@dataclass(frozen=True)
class Drawing:
    """Nodes in arrival order; edges by the message that waits; groups of merged messages."""

    nodes: tuple[DrawnNode, ...]
    edges: tuple[DrawnEdge, ...]
    groups: tuple[tuple[int, ...], ...]


def draw(entries: Sequence[Entry], plan: Plan) -> Drawing:
    """What to draw of a queue and its plan. Semantic edges connect neighbours; of several changes in one relation that
    a message would meet, only the last has an edge. The others are implied."""
    dependencies = plan.dependencies
    edges = [*dependencies.chains(), *(edge for entry in entries for edge in dependencies.edges(entry))]
    edges.sort(key=lambda edge: (edge.after, edge.before, edge.kind.value))
    return Drawing(
        tuple(_node(entry, dependencies.footprint(entry), dependencies.concerned(entry)) for entry in entries),
        tuple(DrawnEdge(edge.before, edge.after, edge.kind, edge.reason) for edge in edges),
        plan.merged(),
    )


def _node(entry: Entry, footprint: Footprint, concerned: bool) -> DrawnNode:
    message = entry.queued.message
    effects = (f"{effect.relation}: {effect.does}" for effect in footprint.effects)
    label = "; ".join([*_rows(entry), *effects]) or "nothing"
    return DrawnNode(entry.number, entry.source, label, message.kind, entry.state, concerned)


def _rows(entry: Entry) -> Iterable[str]:
    for change in entry.queued.message.changes:
        if isinstance(change, DataUpdate):
            yield f"+{change.inserted} −{change.deleted} {change.relation}"


def text(drawing: Drawing) -> str:
    """One paragraph per message: what it is, what it waits for and why."""
    waits: dict[int, list[DrawnEdge]] = {}
    for edge in drawing.edges:
        waits.setdefault(edge.after, []).append(edge)
    lines = []
    for node in drawing.nodes:
        state = "" if node.state is MessageState.WAITING else f" [{node.state.value}]"
        unconcerned = "" if node.concerned else " (concerns no view)"
        what = visible(f"{node.source}  {node.kind}{state}  {node.label}")
        lines.append(f"{node.number}  {what}{unconcerned}")
        for edge in waits.get(node.number, ()):
            arrow = "<──" if edge.kind is EdgeKind.SEMANTIC else "<╌╌"
            lines.append(f"    {arrow} {edge.before}  {edge.kind.value}: {visible(edge.reason)}")
    lines += [f"merged: {numbers(group, limit=50)}" for group in drawing.groups]
    return "\n".join(lines) + "\n" if lines else "no messages\n"


def dot(drawing: Drawing) -> str:
    """The graph in Graphviz's dot language."""
    merged = {number: index for index, group in enumerate(drawing.groups) for number in group}
    lines = [
        "digraph pending {",
        '  rankdir=LR; node [shape=box, style="rounded,filled", fillcolor=white, fontsize=11]; edge [fontsize=9];',
    ]
    for index, group in enumerate(drawing.groups):
        lines.append(f"  subgraph cluster_{index} {{ label={_quoted('merged: ' + numbers(group))}; style=rounded;")
        lines += [_dot_node(node, "    ") for node in drawing.nodes if merged.get(node.number) == index]
        lines.append("  }")
    lines += [_dot_node(node, "  ") for node in drawing.nodes if node.number not in merged]
    for edge in drawing.edges:
        style = "solid" if edge.kind is EdgeKind.SEMANTIC else "dashed"
        lines.append(f"  m{edge.before} -> m{edge.after} [style={style}, tooltip={_quoted(edge.reason)}];")
    return "\n".join([*lines, "}"]) + "\n"


def _dot_node(node: DrawnNode, indent: str) -> str:
    state = "" if node.state is MessageState.WAITING else f" [{node.state.value}]"
    colour = "gray85" if node.state is not MessageState.WAITING else "white" if node.kind == "data" else "lightyellow"
    label = _quoted(f"{node.number} {node.source}{state}\n{node.label}")
    return f"{indent}m{node.number} [label={label}, fillcolor={colour}];"


def _quoted(text: str) -> str:
    """A dot string. Backslashes are doubled, or `\\n` in an identifier would become a line break."""
    return '"' + visible(text, kept="\n").replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
