"""What a unit changes in each view, computed under the snapshots of one poll.

    images in the log ─split─▶ ours, not ours ─sweep─▶ rows in two worlds ─Spark─▶ ΔV

`ours` are the images of the unit's messages that the view does not have. What else the snapshot shows and the view
does not have is not ours yet: it is compensated away, exactly, because the log was read under the very snapshot that
the lookups use (paper 000, Section 5.6; paper 003, Section 5.1 infers the same from arrival order).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import wait
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from dyda import faults
from dyda.engine import Rest
from dyda.errors import BrokenUnit, EvaluationFailed
from dyda.maintenance.catalog_state import MaintainedView
from dyda.maintenance.execute.images import Images, lacking
from dyda.maintenance.execute.levels import Running, States, Stepping, ViewDelta
from dyda.maintenance.execute.task_failures import scanning
from dyda.maintenance.execute.warehouse_scans import state_partitions
from dyda.maintenance.observe.poll import Poll
from dyda.model.bag import COUNT, Bag
from dyda.model.operator_state import State
from dyda.model.position import Position
from dyda.model.relation import Relation, RelationName
from dyda.open_project import OpenProject
from dyda.parallel import WORKERS
from dyda.sources.adapter import XID
from dyda.sources.reading.copy import ScanPartition, read_partition
from dyda.sources.reading.scans import Scanned, few_or_partitions, read_rows
from dyda.warehouse.extents.exported_snapshot import hold_warehouse
from dyda.warehouse.extents.staging import Staging
from va import Truncated
from vm import (
    TAG,
    Evaluation,
    JoinBlock,
    Lookup,
    Occurrence,
    Program,
    SharedLookups,
    SweepPlan,
    asking,
    build_evaluation,
    delta_evaluation,
    helps,
    needed_columns,
    state_number,
    sweep,
)

__all__ = ["Refresh", "Stagings"]

At = Callable[[Occurrence], Position | None]
"""Where an occurrence is read."""

Advance = Callable[[int, int], None]

Chosen = Callable[[Occurrence, Collection[int]], list[int]]
"""Those of the transactions whose images are meant in an occurrence."""


class Deferred(Mapping[str, Bag]):
    """Bags by alias, each made when it is first asked for."""

    def __init__(self, parts: Mapping[str, Callable[[], Bag]]) -> None:
        self._parts = parts
        self._made: dict[str, Bag] = {}

    def __getitem__(self, alias: str) -> Bag:
        if alias not in self._made:
            self._made[alias] = self._parts[alias]()
        return self._made[alias]

    def __contains__(self, alias: object) -> bool:
        return alias in self._parts

    def __iter__(self) -> Iterator[str]:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)


class Stagings(Protocol):
    """Who makes staging tables, and keeps or drops them."""

    def staging(self, columns: int) -> Staging: ...

    def combine_staging(self, state: State, entries: Staging, *, view: str) -> Staging: ...


@dataclass(eq=False)
class Refresh:
    """Computes under one poll; the images in the log are read once per source, for all views together."""

    opened: OpenProject
    poll: Poll
    states: States | None = None
    early_check: Callable[[Collection[RelationName]], None] = lambda names: None
    """Raises if the unit has become pointless: one of these relations is no longer what it is to be read as."""
    rest: Rest | None = None
    """For what is computed beside units, which must not wait: called between its parts."""
    known_as: Mapping[RelationName, RelationName] = field(default_factory=dict)
    """Names that the poll knows by another one: a rename is being followed."""
    few: bool = False
    """Whether the log is asked for the images of single transactions: then of those of the last poll alone."""
    _read: dict[tuple[Relation, tuple[str, ...]], Bag] = field(default_factory=dict)
    """Small relations as the snapshots show them: several views and steps ask for the same."""
    images: Images = field(default=None)  # type: ignore[assignment]
    """What of the log was read so far. Of all of this poll's, unless it was made for some views, or from some rows."""
    _apart: dict[frozenset[str], Refresh] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.images = self.images or Images(self.poll, self.few)

    def read_images(
        self, blocks: Iterable[JoinBlock], run: Sequence[Mapping[str, Collection[int]]] | None = None
    ) -> None:
        """Row images of every relation these blocks read; those of a run's transactions at once."""
        self.images.want(blocks, self.known_as)
        ours: dict[str, list[int]] = {}
        for unit in run or ():
            for source, xids in unit.items():
                ours.setdefault(source, []).extend(xids)
        self.images.read_of(ours)

    def over(self, images: Mapping[Relation, pa.Table]) -> Refresh:
        """The same poll, as if these were all the images that it shows: to look for a row that cannot be computed."""
        return replace(self, images=Images.given(self.poll, images, self.images.after))

    def with_all_images(self, blocks: Iterable[JoinBlock]) -> Refresh:
        """The same poll, with all images of what these blocks read."""
        found = replace(self, images=Images(self.poll, after=self.images.after))
        found.read_images(blocks)
        return found

    def apart(self, views: Sequence[MaintainedView]) -> Refresh:
        """The same poll for some views alone: what only others wait for is not read again and again."""
        names = frozenset(view.name for view in views)
        if names not in self._apart:
            sources = {source for view in views for source in view.positions}
            after = {
                source: Position.meet({view.positions[source] for view in views if source in view.positions})
                for source in sources
            }
            self._apart[names] = replace(self, images=Images(self.poll, self.few, after))
        return self._apart[names]

    def following(self, known_as: Mapping[RelationName, RelationName]) -> Refresh:
        """The same, for a plan that follows renames."""
        return replace(self, known_as=known_as)

    def changes(
        self,
        views: Sequence[MaintainedView],
        run: Sequence[Mapping[str, Collection[int]]],
        phase: Callable[[str], None],
    ) -> list[dict[str, ViewDelta]]:
        """What each unit of a run (its transactions by source) does to each view; one Spark job per level for all."""
        shared = SharedLookups(self._lookups, needed_columns(block for view in views for block in view.program.blocks))
        with ExitStack() as held:
            running = {view.name: self._running(view, run, held, shared) for view in views}
            self._step(list(running.values()), self._kept, phase)
        return [{name: one.result(tag) for name, one in running.items()} for tag in range(1, len(run) + 1)]

    def filled(
        self,
        view: MaintainedView,
        to: Mapping[str, Position],
        emptied: frozenset[RelationName],
        truncated: Mapping[RelationName, Truncated],
        states: States,
    ) -> ViewDelta:
        """What comes into the view by `to`: into relations and states that begin with nothing, and into its other
        states, which stay. `states` knows which are which."""

        def left_out(occurrence: Occurrence, xids: Collection[int]) -> list[int]:
            at = to.get(occurrence.relation.name.source)
            return [] if at is None else [xid for xid in xids if not at.includes(xid)]

        def ours(occurrence: Occurrence, xids: Collection[int]) -> list[int]:
            name = occurrence.relation.name
            if name in truncated:
                return []
            old, new = view.positions.get(name.source), to.get(name.source)
            return [x for x in xids if new is not None and new.includes(x) and not (old is None or old.includes(x))]

        def deltas(block: JoinBlock) -> dict[str, Bag]:
            later = {
                one.alias: self._later(one, truncated[one.relation.name])
                for one in block.occurrences
                if one.relation.name in truncated and self.images.transactions(one.relation) is not None
            }
            return {**self._select(block, ours), **later}

        refresh = replace(self, states=states)
        with ExitStack() as held:
            shared = SharedLookups(self._lookups, needed_columns(view.program.blocks))
            plain = refresh._running(view, [{}], held, shared)

            def scan(occurrence: Occurrence) -> Scanned:
                return [] if occurrence.relation.name in emptied - truncated.keys() else plain.scan(occurrence)

            running = replace(
                plain,
                deltas=deltas,
                pending=lambda block: self._selecting(block, left_out),
                scan=scan,
                standing=lambda block: None,
                emptied=emptied,
            )
            refresh._step([running], states, lambda phase: None)
        return running.result()

    def _later(self, occurrence: Occurrence, truncated: Truncated) -> Bag:
        """All rows that the relation has since it was truncated: images are in log order."""
        there = self.images.transactions(occurrence.relation) or ()
        own = [truncated.xid] if truncated.xid in there else []
        later = sorted(truncated.later.intersection(there))
        parts = [self.images.rows(occurrence.relation, xids) for xids in (own, later) if xids]
        if not parts:
            return Bag.empty(list(occurrence.columns))
        if own:
            parts[0] = parts[0].slice(truncated.before)
        kept = pa.concat_tables(parts)
        if not kept.num_rows:  # no images were read for this view: these are another's, of its columns
            return Bag.empty(list(occurrence.columns))
        self._require_whole(occurrence, kept)
        return Bag(kept.select([*occurrence.columns, COUNT])).consolidate()

    def _step(self, running: Sequence[Running], states: States, phase: Callable[[str], None]) -> None:
        """Views through their levels."""

        def swept() -> None:
            phase("sweep")
            faults.point("unit.swept")

        def evaluate(evaluations: Sequence[Evaluation]) -> list[pa.Table]:
            # What happens to a schema from now on no longer matters, unless Spark's tasks read too.
            settled = WORKERS.submit(self.poll.settle)
            try:
                with scanning():
                    found = self.opened.engine.evaluate(evaluations, read_partition, phase)
            except Exception:
                settled.result()  # a table that moved explains what could not be computed
                raise
            finally:
                wait([settled])
            settled.result()
            phase("check")
            return found

        # The left and the right sweep go to different sources at once (paper 003, Section 5.3).
        Stepping(evaluate, states, self.early_check, WORKERS).run(running, swept)

    @property
    def _kept(self) -> States:
        if self.states is None:
            raise ValueError("a comparison of views does not read their states")
        return self.states

    def _running(
        self, view: MaintainedView, run: Sequence[Mapping[str, Collection[int]]], held: ExitStack, lookup: Lookup
    ) -> Running:
        tags: dict[str, dict[int, int]] = {}
        for tag, unit in enumerate(run, 1):
            for source, xids in unit.items():
                tags.setdefault(source, {}).update(dict.fromkeys(xids, tag))

        def mine(occurrence: Occurrence, xids: Collection[int]) -> list[int]:
            source = occurrence.relation.name.source
            at = view.positions.get(source)
            return [] if at is None else [x for x in tags.get(source, ()) if x in xids and not at.includes(x)]

        def others(occurrence: Occurrence, xids: Collection[int]) -> list[int]:
            source = occurrence.relation.name.source
            tagged, at = tags.get(source, {}), view.positions.get(source)
            return [] if at is None else [x for x in xids if x not in tagged and not at.includes(x)]

        def scan(occurrence: Occurrence) -> Scanned:
            number = state_number(occurrence.relation)
            if number is None:
                return self._scan(occurrence)
            state = held.enter_context(hold_warehouse(self.opened.warehouse.url)).state(view.name, number)
            return self.scanned(state_partitions(state, view.name, occurrence), occurrence)

        return Running(
            view.program,
            lambda block: self._select(block, mine, tags if len(run) > 1 else None),
            lambda block: self._selecting(block, others),
            lookup,
            scan,
            tagged=len(run) > 1,
            standing=lambda block: frozenset((one.source, view.positions.get(one.source)) for one in block.relations),
        )

    def build(
        self,
        program: Program,
        at: At,
        stagings: Stagings,
        progress: Advance,
        given: Mapping[int, Staging] | None = None,
    ) -> tuple[list[Staging], int]:
        """The whole view and its states where `at` says, written by Spark tasks: a staging table per step, the view's
        own is the last; and how many entries were written. A state is computed before the steps that read it, unless
        its rows are `given`."""
        made: list[Staging] = []
        written = 0
        for step in program.steps:
            if given is not None and step.number in given:
                made.append(given[step.number])
                continue
            with ExitStack() as stack:
                warehouse = None
                if any(term.states for term in step.terms):
                    warehouse = stack.enter_context(hold_warehouse(self.opened.warehouse.url))
                evaluations = []
                for term in step.terms:
                    held = {
                        occurrence.alias: self.scanned(
                            state_partitions(warehouse.staging(state, made[number]), program.view, occurrence),
                            occurrence,
                        )
                        for occurrence in term.block.occurrences
                        if warehouse is not None
                        and (number := state_number(occurrence.relation)) is not None
                        and (state := program.steps[number].state) is not None
                    }
                    side, name = term.side if step.two_sided else None, (program.view, step.number, term.side)
                    parts = {"types": step.types, "sign": term.sign, "side": side, "sum": name}
                    evaluations.append(self._whole(term.block, at, held, **parts))
                entries, count = self._write_sum(evaluations, stagings, step.width + step.two_sided, progress)
                written += count
            made.append(
                entries if step.state is None else stagings.combine_staging(step.state, entries, view=program.view)
            )
        return made, written

    def _write_sum(
        self, evaluations: Sequence[Evaluation], stagings: Stagings, width: int, progress: Advance
    ) -> tuple[Staging, int]:
        """The terms of one sum in a staging table, and how many entries they are."""
        entries = stagings.staging(width)
        try:
            with scanning():
                sink = entries.sink()
                return entries, self.opened.engine.build(evaluations, sink, read_partition, progress, self.rest)
        except EvaluationFailed:
            if not helps(evaluations):
                raise
        entries = stagings.staging(width)  # what was written is part of a sum that was given up
        with scanning():
            return entries, self.opened.engine.build_sum(evaluations, entries.sink(), read_partition, progress)

    def write(
        self,
        block: JoinBlock,
        at: At,
        staging: Staging,
        progress: Advance,
        held: Mapping[str, Scanned] | None = None,
    ) -> int:
        """The block's rows, each occurrence read where `at` says. `held` are occurrences that are no source's."""
        with scanning():
            evaluation = self._whole(block, at, held or {})
            return self.opened.engine.build([evaluation], staging.sink(), read_partition, progress, self.rest)

    def _whole(self, block: JoinBlock, at: At, held: Mapping[str, Scanned], **term: Any) -> Evaluation:
        scanned = {one.alias: self._scan(one) for one in block.occurrences if one.alias not in held}
        return build_evaluation(block, {**held, **scanned}, self.beyond(block, at), **term)

    def difference(
        self,
        plan: SweepPlan,
        since: Callable[[Occurrence], Position],
        to: Callable[[Occurrence], Position],
        replaced: Mapping[str, Bag],
    ) -> pa.Table | None:
        """ΔV between two states; None if nothing moved. `replaced` are differences that no image shows."""
        block = plan.block

        def between(occurrence: Occurrence, xids: Collection[int]) -> list[int]:
            old, new = since(occurrence), to(occurrence)
            return [xid for xid in xids if new.includes(xid) and not old.includes(xid)]

        deltas = self._select(block, between)
        deltas = {alias: bag.consolidate() for alias, bag in {**deltas, **replaced}.items()}
        if not any(len(bag) for bag in deltas.values()):
            return None
        worlds = sweep(plan, deltas, self.beyond(block, to), asking(block, SharedLookups(self._lookups)))
        evaluation = delta_evaluation(block, worlds, self._scan)
        self.early_check(block.relations)
        with scanning():
            return self.opened.engine.evaluate([evaluation], read_partition)[0]

    def rows(self, occurrence: Occurrence) -> Bag:
        """All rows of a relation as the snapshot shows them, here and not on Spark."""
        with scanning():
            rows = self._scan(occurrence)
            return rows if isinstance(rows, Bag) else read_rows(rows, occurrence.columns)

    def beyond(self, block: JoinBlock, at: At) -> Mapping[str, Bag]:
        """Per occurrence, what the snapshot shows and the state asked for does not have."""

        def left_out(occurrence: Occurrence, xids: Collection[int]) -> list[int]:
            position = at(occurrence)
            return [] if position is None else [xid for xid in xids if not position.includes(xid)]

        return self._selecting(block, left_out)

    def _select(
        self, block: JoinBlock, chosen: Chosen, tags: Mapping[str, Mapping[int, int]] | None = None
    ) -> dict[str, Bag]:
        """Per occurrence, the images of the chosen transactions, with their tags in a run; a
        self-joined relation changes in each of them."""
        bags = {}
        for occurrence in block.occurrences:
            # The decision is made per transaction, not per row.
            xids = self._chosen(occurrence, chosen)
            if xids:
                tagged = tags[occurrence.relation.name.source] if tags is not None else None
                bags[occurrence.alias] = self._selection(occurrence, xids, tagged)
        return bags

    def _selecting(self, block: JoinBlock, chosen: Chosen) -> Mapping[str, Bag]:
        """The same, each when it is first asked for: a log is not read for what nobody looks at."""

        def selected(occurrence: Occurrence) -> Bag:
            xids = self._chosen(occurrence, chosen)
            return self._selection(occurrence, xids, None) if xids else Bag.empty(list(occurrence.columns))

        return Deferred({one.alias: partial(selected, one) for one in block.occurrences})

    def _chosen(self, occurrence: Occurrence, chosen: Chosen) -> list[int]:
        there = self.images.transactions(occurrence.relation)
        return chosen(occurrence, there) if there else []

    def _selection(self, occurrence: Occurrence, xids: Sequence[int], tags: Mapping[int, int] | None) -> Bag:
        """The images of these transactions in the occurrence's columns, each row once."""
        key = (occurrence.relation, tuple(occurrence.columns), tuple(xids))
        known = self.images.selected.get(key)
        if known is not None and tags is None:
            return known
        kept = self.images.rows(occurrence.relation, xids)
        self._require_whole(occurrence, kept)
        rows = kept.select([*occurrence.columns, COUNT])
        if tags is not None:
            each = pa.array([tags[xid] for xid in xids], pa.int64())
            values = pa.array(xids, pa.int64())
            tagged = each.take(pc.index_in(kept.column(XID), value_set=values).combine_chunks())
            return Bag(rows.add_column(len(occurrence.columns), TAG, tagged)).consolidate()
        selected = Bag(rows).consolidate()
        self.images.selected[key] = selected
        return selected

    def _require_whole(self, occurrence: Occurrence, images: pa.Table) -> None:
        """Nothing is computed from a column that its table did not have, yet or any more, when the row was logged."""
        lacks = lacking(images)
        needed = [name for name in occurrence.columns if name in lacks]
        if needed:
            name = occurrence.relation.name
            relations = frozenset({str(self.known_as.get(name, name))})
            raise BrokenUnit(name.source, relations, f"a logged row lacks {', '.join(needed)}")

    @property
    def _lookups(self) -> dict[str, Lookup]:
        """How each source is asked for rows."""
        return {source: snapshot.lookup for source, snapshot in self.poll.snapshots.items()}

    def _scan(self, occurrence: Occurrence) -> Scanned:
        relation = occurrence.relation
        key = (relation, tuple(occurrence.columns))
        if key not in self._read:
            snapshot = self.poll.snapshots[relation.name.source]
            with scanning():
                rows = snapshot.rows_or_partitions(relation, key[1], self._small_scan, beside=self.rest is not None)
            if not isinstance(rows, Bag):
                return rows
            self._read[key] = rows
        return self._read[key]

    def scanned(self, partitions: Sequence[ScanPartition], occurrence: Occurrence) -> Scanned:
        """What is in the warehouse, in the same way."""
        with scanning():
            return few_or_partitions(partitions, occurrence.columns, self._small_scan)

    @property
    def _small_scan(self) -> int:
        return self.opened.project.settings.spark.small_scan
