"""Building views: new ones, and those that must be read again because something moved under them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from dyda.errors import DydaError, EvaluationFailed, SourceUnreachable, ValueDoesNotFit
from dyda.house import House
from dyda.maintenance.live import BuildPlan, Known, Target
from dyda.maintenance.poll import Poll
from dyda.maintenance.present import Present
from dyda.maintenance.refresh import Refresh
from dyda.model.algebra import ViewDefinition, scans
from dyda.model.position import Position
from dyda.model.relation import Relation, RelationName
from dyda.model.render import render_view
from dyda.warehouse import ViewChange, ViewColumn, ViewVersion, Worker
from vm import flatten
from vs import Broken, Holds, Judgement, Rewritten, follow, read

__all__ = ["Builder", "Progress"]

Progress = Callable[[str, int, int], None]


@dataclass
class Builder:
    """Builds under the snapshots of one poll. `described` is what the sources said of the relations read."""

    house: House
    worker: Worker
    poll: Poll
    known: Known
    refresh: Refresh
    progress: Progress
    described: dict[RelationName, Relation] = field(default_factory=dict)
    forgotten: set[RelationName] = field(default_factory=set)

    def build(self, target: Target) -> ViewChange:
        """The change that installs the view as its definition says now, or freezes it as broken.

        What was asked for by a file is never frozen: its error goes to whoever asked, and what is live stays live.
        """
        try:
            judgement = self._judge(target)
            if isinstance(judgement, Broken):
                raise _BrokenView(judgement.reason)
            return self._at_present(target, judgement)
        except SourceUnreachable:
            raise
        except (_BrokenView, EvaluationFailed, ValueDoesNotFit) as error:
            if target.file_text is not None:
                raise
            return ViewChange(view=target.name, state="broken", reason=f"{target.reason}: {error.what}")

    def _judge(self, target: Target) -> Judgement:
        """A maintained view follows what it means; a text from a file is read as it stands."""
        numeric = self.house.project.settings.spark.numeric
        view = self.known.views.get(target.name)
        if view is None or target.file_text is not None:
            return read(target.name, target.sql, self._describe, numeric)
        now = Present(self.house).of([scan.relation for scan in scans(view.definition.tree)])
        judgement = follow(view.definition, now, numeric)
        if isinstance(judgement, Holds):
            for name, relation in now.items():
                if relation is not None:
                    self.described[relation.name] = relation
                    if relation.name != name:
                        self.forgotten.add(name)
        return judgement

    def _at_present(self, target: Target, judgement: Holds | Rewritten) -> ViewChange:
        """The whole view at everything that the snapshots show."""
        definition = judgement.definition
        if judgement.followed:
            target = Target(target.name, definition.sql, None, f"{target.reason}; {'; '.join(judgement.followed)}")
        positions = {}
        for source in sorted(definition.sources):
            if source not in self.poll.snapshots:
                raise SourceUnreachable(source, self.poll.unreachable.get(source, "capture is not attached"))
            positions[source] = self.poll.snapshots[source].position
        return self.recompute(self.plan(target, definition), positions)

    def plan(self, target: Target, definition: ViewDefinition) -> BuildPlan:
        numeric = self.house.project.settings.spark.numeric
        outputs = tuple(self.house.engine.analyse(definition))
        return BuildPlan(target, definition, flatten(definition, numeric), outputs)

    def recompute(
        self, plan: BuildPlan, positions: Mapping[str, Position], told: Mapping[str, Any] | None = None
    ) -> ViewChange:
        """The view at `positions`, merged into its extent by difference; what is visible beyond them is taken away.

        `told` is what the view's history says about it.
        """
        target, definition = plan.target, plan.definition
        columns = tuple(
            ViewColumn(output.name, output.warehouse_type, output.spark_type, output.passthrough)
            for output in plan.outputs
        )
        if self._lies_beyond(positions, definition):
            self.refresh.read_images([plan.block])
        staging = self.worker.staging(len(columns))
        self.refresh.build(
            plan, positions, staging, lambda done, total: self.progress(f"building {target.name}", done, total)
        )
        view = self.known.views.get(target.name)
        record = view.record if view is not None else self.known.frozen.get(target.name)
        # A version's text must mean the same for ever; `*` would take in a column that is added later.
        sql = render_view(definition.tree, definition.preferences) if definition.star else definition.sql
        evolved = target.file_text is None and (
            record is None or record.sql != sql or bool(record.details.get("evolved"))
        )
        version = ViewVersion(
            sql=sql,
            columns=columns,
            relations=tuple(sorted(definition.relations)),
            cause=target.reason,
            file_text=target.file_text,
            details={"evolved": evolved, **(told or {})},
        )
        unchanged = record is not None and record.sql == sql and record.columns == columns
        expected = record.positions if record is not None else {}
        return ViewChange(
            view=target.name,
            staging=staging,
            mode="replace",
            version=None if unchanged and target.file_text is None else version,
            state="live",
            positions={source: (expected.get(source), position) for source, position in positions.items()},
        )

    def _lies_beyond(self, positions: Mapping[str, Position], definition: ViewDefinition) -> bool:
        """Whether the snapshots show rows of this view that `positions` leave out. Otherwise no image is needed, and
        none is read: it may be older than a column that the view reads. The queue speaks of relations by the names
        that the poll was opened with."""
        read = {self.refresh.known_as.get(name, name) for name in definition.relations}
        return any(
            not positions[queued.message.source].includes(queued.message.xid)
            for queued in self.poll.queue
            if queued.message.relations & read
        )

    def _describe(self, source: str, schema: str | None, table: str) -> Relation:
        """A relation as it is now. Right for this unit because the schemas are compared before and after (R2)."""
        name = self.house.relation_name(source, schema, table)
        if name not in self.described:
            self.described[name] = self.house.describe(source, schema, table)
        return self.described[name]


class _BrokenView(DydaError):
    """The definition does not hold over the relations as they are now."""
