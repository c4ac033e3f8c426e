"""What a unit changes in each view, computed under the snapshots of one poll.

    images in the log ─split─▶ ours, not ours ─sweep─▶ rows in two worlds ─Spark─▶ ΔV

`ours` are the images of the unit's messages that the view does not have. What else the snapshot shows and the view
does not have is not ours yet: it is compensated away, exactly, because the log was read under the very snapshot that
the lookups use (paper 000, Section 5.6; paper 003, Section 5.1 infers the same from arrival order).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.compute as pc

from dyda import faults
from dyda.errors import WarehouseUnreachable
from dyda.house import House
from dyda.maintenance.live import BuildPlan, LiveView
from dyda.maintenance.poll import Poll
from dyda.model.bag import COUNT, Bag
from dyda.model.position import Position
from dyda.model.relation import Relation, RelationName
from dyda.sources import ScanPartition
from dyda.sources.connection import translated
from dyda.sources.reader import ReadFailed, read_partition
from dyda.warehouse import Staging
from vm import Ask, JoinBlock, Occurrence, SweepPlan, build_evaluation, delta_evaluation, sweep

__all__ = ["WAREHOUSE", "Refresh", "scanning"]

XID = "#xid"

WAREHOUSE = ""
"""What a partition of an extent says instead of a source's name."""

Chosen = Callable[[Occurrence, int], bool]
"""Whether a transaction's images are meant in an occurrence."""


@contextmanager
def scanning() -> Iterator[None]:
    """A Spark task that cannot read its partition ends the unit as a failed lookup would."""
    try:
        yield
    except ReadFailed as error:
        if error.source == WAREHOUSE:
            raise WarehouseUnreachable(error.what) from None
        raise translated(error.source, [error.relation], error.sqlstate, error.what) from None


class Refresh:
    """Computes under one poll; the images in the log are read once per source, for all views together."""

    def __init__(self, house: House, poll: Poll, early_check: Callable[[], None] = lambda: None) -> None:
        self.house = house
        self.poll = poll
        self.early_check = early_check
        """Raises if the unit has become pointless; called before each hop and before Spark."""
        self.known_as: dict[RelationName, RelationName] = {}
        """Names that the poll knows by another one: a rename is being followed."""
        self._images: dict[Relation, pa.Table] = {}
        """By the relation as the reader knows it: under the same name there may be another table, or other columns
        under the same names, once a unit of this poll has followed a schema change."""

    def read_images(self, blocks: Iterable[JoinBlock]) -> None:
        """Fetch the row images of every relation these views read, with all the columns any of them needs."""
        touched = {name for queued in self.poll.queue for name in queued.message.relations}
        wanted: dict[str, dict[RelationName, dict[str, None]]] = {}
        meant: dict[RelationName, Relation] = {}
        for block in blocks:
            meant |= {occurrence.relation.name: occurrence.relation for occurrence in block.occurrences}
            for name, columns in block.wanted.items():
                known = self.known_as.get(name, name)
                if known in touched and name.source in self.poll.snapshots and not self._has(meant[name], columns):
                    wanted.setdefault(name.source, {}).setdefault(name, {}).update(dict.fromkeys(columns))
        for source, relations in wanted.items():
            asked = {self.known_as.get(name, name): list(columns) for name, columns in relations.items()}
            tables = {self.known_as.get(name, name): meant[name] for name in relations}
            images = self.poll.snapshots[source].changes(asked, self.poll.after.get(source), tables)
            self._images |= {meant[name]: images[self.known_as.get(name, name)] for name in relations}

    def _has(self, relation: Relation, columns: Iterable[str]) -> bool:
        images = self._images.get(relation)
        return images is not None and set(columns) <= set(images.column_names)

    def changes(
        self, views: Sequence[LiveView], ours: Mapping[str, Collection[int]], phase: Callable[[str], None]
    ) -> dict[str, pa.Table]:
        """ΔV of each view that the messages `ours` (transactions by source) touch; one Spark job for all."""
        evaluations = []
        for view in views:

            def mine(occurrence: Occurrence, xid: int, view: LiveView = view) -> bool:
                source = occurrence.relation.name.source
                return xid in ours.get(source, ()) and not view.has(source, xid)

            def others(occurrence: Occurrence, xid: int, view: LiveView = view) -> bool:
                source = occurrence.relation.name.source
                return xid not in ours.get(source, ()) and not view.has(source, xid)

            deltas = {alias: bag.consolidate() for alias, bag in self._select(view.block, mine).items()}
            if any(len(bag) for bag in deltas.values()):
                worlds = sweep(view.plan, deltas, self._select(view.block, others), self._ask(view.block))
                evaluations.append(delta_evaluation(view.block, worlds, self._scan))
        phase("sweep")
        faults.point("unit.swept")
        self.early_check()
        with scanning():
            tables = self.house.engine.evaluate(evaluations, read_partition) if evaluations else []
        phase("spark")
        return {evaluation.view: table for evaluation, table in zip(evaluations, tables, strict=True)}

    def build(
        self, plan: BuildPlan, positions: Mapping[str, Position], staging: Staging, progress: Callable[[int, int], None]
    ) -> int:
        """The whole view at `positions`, written to `staging` by Spark tasks; returns the entries written."""
        return self.write(plan.block, lambda occurrence: positions[occurrence.relation.name.source], staging, progress)

    def write(
        self,
        block: JoinBlock,
        at: Callable[[Occurrence], Position | None],
        staging: Staging,
        progress: Callable[[int, int], None],
        held: Mapping[str, Sequence[ScanPartition]] | None = None,
    ) -> int:
        """The block's rows, each occurrence read where `at` says. `held` are occurrences that are no source's."""
        pending = self.beyond(block, at)
        evaluation = build_evaluation(block, lambda occurrence: self._partitions(occurrence, held or {}), pending)
        with scanning():
            return self.house.engine.build(evaluation, staging.sink(), read_partition, progress)

    def difference(
        self,
        plan: SweepPlan,
        since: Callable[[Occurrence], Position],
        to: Callable[[Occurrence], Position],
        replaced: Mapping[str, Bag],
    ) -> pa.Table | None:
        """ΔV between two states; None if nothing moved. `replaced` are differences that no image shows."""
        block = plan.block
        deltas = self._select(block, lambda one, xid: to(one).includes(xid) and not since(one).includes(xid))
        deltas = {alias: bag.consolidate() for alias, bag in {**deltas, **replaced}.items()}
        if not any(len(bag) for bag in deltas.values()):
            return None
        worlds = sweep(plan, deltas, self.beyond(block, to), self._ask(block))
        evaluation = delta_evaluation(block, worlds, self._scan)
        self.early_check()
        with scanning():
            return self.house.engine.evaluate([evaluation], read_partition)[0]

    def rows(self, occurrence: Occurrence) -> Bag:
        """All rows of a relation as the snapshot shows them, here and not on Spark."""
        columns = list(occurrence.columns)
        with scanning():
            pieces = [read_partition(partition) for partition in self._scan(occurrence)]
        counted = [piece.rename_columns(columns) for piece in pieces]
        table = pa.concat_tables(counted) if counted else Bag.empty(columns).table.select(columns)
        return Bag(table.append_column(COUNT, pa.repeat(pa.scalar(1, pa.int64()), table.num_rows)))

    def beyond(self, block: JoinBlock, at: Callable[[Occurrence], Position | None]) -> dict[str, Bag]:
        """Per occurrence, what the snapshot shows and the state asked for does not have."""

        def left_out(occurrence: Occurrence, xid: int) -> bool:
            position = at(occurrence)
            return position is not None and not position.includes(xid)

        return self._select(block, left_out)

    def _partitions(
        self, occurrence: Occurrence, held: Mapping[str, Sequence[ScanPartition]]
    ) -> Sequence[ScanPartition]:
        return held[occurrence.alias] if occurrence.alias in held else self._scan(occurrence)

    def _select(self, block: JoinBlock, chosen: Chosen) -> dict[str, Bag]:
        """Per occurrence, the images of the chosen transactions; a self-joined relation changes in each of them."""
        bags = {}
        for occurrence in block.occurrences:
            images = self._images.get(occurrence.relation)
            if images is None:
                continue
            # The decision is made per transaction, not per row.
            xids = [xid for xid in pc.unique(images.column(XID)).to_pylist() if chosen(occurrence, xid)]
            if xids:
                kept = images.filter(pc.is_in(images.column(XID), value_set=pa.array(xids, pa.int64())))
                bags[occurrence.alias] = Bag(kept.select([*occurrence.columns, COUNT]))
        return bags

    def _ask(self, block: JoinBlock) -> Ask:
        def ask(alias: str, columns: Sequence[str], key: Sequence[str], values: pa.Table) -> Bag:
            self.early_check()
            relation = block.by_alias[alias].relation
            return self.poll.snapshots[relation.name.source].lookup(relation, columns, key, values)

        return ask

    def _scan(self, occurrence: Occurrence) -> list[ScanPartition]:
        relation = occurrence.relation
        return self.poll.snapshots[relation.name.source].scan(relation, occurrence.columns)
