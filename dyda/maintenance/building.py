"""Building views: new ones, and those that must be read again because something moved under them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from dyda.errors import DydaError, EvaluationFailed, SourceUnreachable, ValueDoesNotFit
from dyda.house import House
from dyda.maintenance.live import BuildPlan, Known, Target
from dyda.maintenance.poll import Poll
from dyda.maintenance.refresh import Refresh
from dyda.model.relation import Relation, RelationName
from dyda.model.render import render_view
from dyda.warehouse import ViewChange, ViewColumn, ViewVersion, Worker
from va import Recompute, adapt
from vm import flatten
from vs import Broken, read

__all__ = ["Builder"]

Progress = Callable[[str, int, int], None]


@dataclass
class Builder:
    """Builds targets under the snapshots of one poll. `described` is what the sources said of the relations read."""

    house: House
    worker: Worker
    poll: Poll
    known: Known
    progress: Progress
    described: dict[RelationName, Relation] = field(default_factory=dict)

    def build(self, target: Target) -> ViewChange:
        """The change that installs the view as its definition says now, or freezes it as broken.

        A view that was never built has nothing to freeze: its error goes to whoever asked for it.
        """
        new = target.name not in self.known.views and target.name not in self.known.frozen
        if new:
            plan = self._plan(target)
            return self._recompute(plan)
        try:
            return self._recompute(self._plan(target))
        except SourceUnreachable:
            raise
        except _BrokenView as broken:
            return ViewChange(view=target.name, state="broken", reason=f"{target.reason}: {broken.reason}")
        except (EvaluationFailed, ValueDoesNotFit) as error:
            return ViewChange(view=target.name, state="broken", reason=f"{target.reason}: {error.what}")

    def _plan(self, target: Target) -> BuildPlan:
        numeric = self.house.project.settings.spark.numeric
        judgement = read(target.name, target.sql, self._describe, numeric)
        if isinstance(judgement, Broken):
            raise _BrokenView(judgement.reason)
        adaptation = adapt(judgement.definition, target.reason)
        match adaptation:
            case Recompute(definition):
                outputs = tuple(self.house.engine.analyse(definition))
                return BuildPlan(target, definition, flatten(definition, numeric), outputs)

    def _recompute(self, plan: BuildPlan) -> ViewChange:
        target, definition = plan.target, plan.definition
        positions = {}
        for source in sorted(definition.sources):
            if source not in self.poll.snapshots:
                raise SourceUnreachable(source, self.poll.unreachable.get(source, "capture is not attached"))
            positions[source] = self.poll.snapshots[source].position
        columns = tuple(
            ViewColumn(output.name, output.warehouse_type, output.spark_type, output.passthrough)
            for output in plan.outputs
        )
        staging = self.worker.staging(len(columns))
        Refresh(self.house, self.poll).build(
            plan, positions, staging, lambda done, total: self.progress(f"building {target.name}", done, total)
        )
        record = self.known.views[target.name].record if target.name in self.known.views else None
        record = record or self.known.frozen.get(target.name)
        # A version's text must mean the same for ever; `*` would take in a column that is added later.
        sql = render_view(definition.tree, definition.preferences) if definition.star else target.sql
        version = ViewVersion(
            sql=sql,
            columns=columns,
            relations=tuple(sorted(definition.relations)),
            cause=target.reason,
            file_text=target.file_text,
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

    def _describe(self, source: str, schema: str | None, table: str) -> Relation:
        """A relation as it is now. Right for this unit because the schemas are compared before and after (R2)."""
        name = self.house.relation_name(source, schema, table)
        if name not in self.described:
            self.described[name] = self.house.describe(source, schema, table)
        return self.described[name]


class _BrokenView(DydaError):
    """The definition does not hold over the relations as they are now."""

    @property
    def reason(self) -> str:
        return self.what
