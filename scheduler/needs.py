"""What processing a message may read that a pending schema change changes: what dependencies are made of.

Entry ─▶ its footprint's reads ─▶ Need: a relation, the columns read, and the last message that changes them
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from dyda.model.message import MessageState
from dyda.model.relation import RelationName
from scheduler.footprint import Footprints, Shape
from scheduler.queue import Queued
from scheduler.rename_classes import Columns

__all__ = ["Entry", "Need", "Needs"]


@dataclass(slots=True, eq=False)
class Entry:
    """A message in the queue, with what scheduling keeps about it. `observed`: relations it broke on (rule S3)."""

    queued: Queued
    number: int
    source: str
    shape: Shape
    rows: int
    state: MessageState = MessageState.WAITING
    observed: frozenset[RelationName] = frozenset()
    changes_schema: bool = field(init=False)
    alone: bool = field(init=False)
    """Whether it must be a run of its own; a field because every planning asks every message."""

    def __post_init__(self) -> None:
        self.changes_schema = self.alone = not isinstance(self.shape, frozenset)

    def mark(self, state: MessageState) -> None:
        self.state = state
        self.alone = self.changes_schema or state is not MessageState.WAITING or bool(self.observed)

    def observe(self, relations: Iterable[RelationName]) -> None:
        self.observed |= frozenset(relations)
        self.mark(self.state)


Need = tuple[RelationName, Columns, Entry]


@dataclass(slots=True)
class _Changes:
    """The last message that changes a relation: at all, as a whole, and in each column."""

    anything: Entry | None = None
    whole: Entry | None = None
    columns: dict[str, Entry] = field(default_factory=dict)

    def record(self, entry: Entry, columns: Columns) -> None:
        self.anything = entry
        if columns is None:
            self.whole = entry
        else:
            self.columns.update(dict.fromkeys(columns, entry))

    def last(self, columns: Columns) -> Entry | None:
        """The last one that a reader of `columns` would meet."""
        if columns is None:
            return self.anything
        found = [self.columns[column] for column in columns if column in self.columns]
        if self.whole is not None:
            found.append(self.whole)
        return max(found, key=lambda entry: entry.number, default=None)


class Needs:
    """Of any message, given the schema changes that are pending, in arrival order."""

    def __init__(self, changes: Iterable[Entry], footprints: Footprints) -> None:
        self.footprints = footprints
        self._pending: Sequence[Entry] | None = list(changes)
        """None once they have been looked at. Most queues can be processed without."""
        self._changes: dict[RelationName, _Changes] = {}
        self._of_relation: dict[RelationName, tuple[Need, ...]] = {}

    def of(self, entry: Entry) -> Iterable[Need]:
        """Per relation that processing `entry` may read and that changes: the columns read and the last change."""
        if isinstance(entry.shape, frozenset) and not entry.observed:
            return (need for relation in entry.shape for need in self._needs_of(relation))
        reads = dict(self.footprints.of(entry.shape).reads)
        reads |= {self.footprints.names.relation(relation): None for relation in entry.observed}
        return self._last_changes(reads.items())

    def concerned(self, entry: Entry) -> bool:
        """Whether it takes part in the order at all: it concerns a view, or has broken, so it had work to do."""
        return bool(entry.observed) or self.footprints.concerned(entry.shape)

    def waits(self, entry: Entry) -> bool:
        """Whether it waits for a message that comes after it: only then is an order other than arrival order legal."""
        return self.concerned(entry) and any(changer.number > entry.number for _, _, changer in self.of(entry))

    def _needs_of(self, relation: RelationName) -> tuple[Need, ...]:
        """What a data update of one relation needs, computed once."""
        found = self._of_relation.get(relation)
        if found is None:
            reads = self.footprints.of_relation(relation).reads
            found = self._of_relation[relation] = tuple(self._last_changes(reads.items()))
        return found

    def _last_changes(self, reads: Iterable[tuple[RelationName, Columns]]) -> Iterator[Need]:
        for relation, columns in reads:
            if relation in self.footprints.changing and (last := self._changes_of(relation).last(columns)) is not None:
                yield relation, columns, last

    def _changes_of(self, relation: RelationName) -> _Changes:
        if self._pending is not None:
            for entry in self._pending:
                for changed, columns in self.footprints.of(entry.shape).schema.items():
                    self._changes.setdefault(changed, _Changes()).record(entry, columns)
            self._pending = None
        return self._changes.setdefault(relation, _Changes())
