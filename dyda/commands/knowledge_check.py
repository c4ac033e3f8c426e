"""Do the constraints of the knowledge hold? Each is tested against the sources as they are now.

    containment   both projections ─ Spark ─▶ staging ─▶ compared as sets in the warehouse
    function      the rows that meet by a join constraint and differ ─ Spark ─▶ staging ─▶ counted
    join          promises nothing about rows; the number of rows that meet is shown, so that typing errors stand out

Conditions and comparisons are Spark's, as in the rewritings that the constraints allow; NULL is a value, so function
constraints are compared with IS DISTINCT FROM (V3). Each source is read at its own time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, assert_never

from dyda.errors import BrokenUnit, DydaError
from dyda.model.algebra.nodes import ColumnRef
from dyda.model.knowledge.constraints import (
    Constraint,
    Containment,
    FunctionConstraint,
    JoinConstraint,
    Knowledge,
    Projection,
)
from dyda.model.relation import Relation, RelationName
from dyda.model.types import PgType
from dyda.open_project import OpenProject
from dyda.sources.fingerprints import is_uncaptured

if TYPE_CHECKING:
    from dyda.sources.adapter import Snapshot
    from dyda.warehouse.extents.staging import Staging

__all__ = ["Finding", "examine"]

ATTEMPTS = 5


@dataclass(frozen=True)
class Finding:
    """`result`: holds, violated (by so many rows) or untested (for this reason)."""

    result: str
    violations: int = 0
    rows: int | None = None
    reason: str | None = None
    samples: tuple[Mapping[str, Any], ...] = ()


def examine(opened: OpenProject, knowledge: Knowledge) -> list[Finding]:
    """One finding for each constraint, in the knowledge's order."""
    return [_test(opened, constraint, knowledge) for constraint in knowledge.constraints]


def _test(opened: OpenProject, constraint: Constraint, knowledge: Knowledge) -> Finding:
    for _ in range(ATTEMPTS):
        try:
            with ExitStack() as stack:
                return _Test(opened, constraint, stack).run(knowledge)
        except BrokenUnit:
            continue  # a schema changed while it was read
        except DydaError as error:
            return Finding("untested", reason=error.what)
    return Finding("untested", reason="the schemas kept changing while they were read")


@dataclass
class _Test:
    """One constraint under one snapshot of each of its sources."""

    opened: OpenProject
    constraint: Constraint
    stack: ExitStack
    relations: dict[RelationName, Relation] = field(default_factory=dict)
    snapshots: dict[str, Snapshot] = field(default_factory=dict)

    def run(self, knowledge: Knowledge) -> Finding:
        self._open()
        match self.constraint:
            case JoinConstraint():
                finding = self._join(self.constraint)
            case Containment():
                finding = self._containment(self.constraint)
            case FunctionConstraint():
                finding = self._function(self.constraint, knowledge)
            case _:
                assert_never(self.constraint)
        self._check()
        return finding

    def _open(self) -> None:
        names = sorted(self.constraint.relations)
        self.relations = {name: self._described(name) for name in names}
        for source in sorted({name.source for name in names}):
            mine = [name for name in names if name.source == source]
            self.snapshots[source] = self.stack.enter_context(self.opened.source(source).open(mine))

    def _described(self, name: RelationName) -> Relation:
        return self.opened.describe(name.source, name.schema, name.table)

    def _check(self) -> None:
        """R2: what was read is what was described. A relation that is not captured has no lasting fingerprint."""
        for source, snapshot in self.snapshots.items():
            again = snapshot.fingerprint_again()
            before = snapshot.fingerprints
            for name in self.constraint.relations:
                if name.source != source:
                    continue
                moved = again[name] != before[name] and not is_uncaptured(before[name])
                if moved or self._described(name) != self.relations[name]:
                    raise BrokenUnit(source, frozenset({str(name)}), "the schema changed while it was being read")

    # --- the three kinds

    def _containment(self, constraint: Containment) -> Finding:
        of, within = constraint.of, constraint.within
        types = [
            self._common(self._type(of.relation, one), self._type(within.relation, other))
            for one, other in zip(of.columns, within.columns, strict=True)
        ]
        left, right = self._staged_projection(of, types), self._staged_projection(within, types)
        missing, extra = constraint.is_ != "superset", constraint.is_ != "subset"
        found = self.opened.warehouse.compare_sets(left, right, (missing, extra))
        violations = found.left_alone * missing + found.right_alone * extra
        samples = tuple(
            {
                "relation": str(of.relation if in_left else within.relation),
                "values": dict(zip(of.columns if in_left else within.columns, texts, strict=True)),
                "rows": in_left or in_right,
            }
            for in_left, in_right, texts in found.samples
        )
        return _counted(violations, found.left_rows, samples)

    def _function(self, constraint: FunctionConstraint, knowledge: Knowledge) -> Finding:
        joins = [join for join in knowledge.joins if join.relations == constraint.relations]
        if not joins:
            return Finding("untested", reason=f"no [[join]] says how {constraint.relation} and {constraint.over} meet")
        attribute = ColumnRef(str(constraint.relation), constraint.column)
        text = self._type(constraint.relation, constraint.column).computation(self._numeric) is None
        one = f"CAST({self._shown(attribute)} AS STRING)" if text else self._shown(attribute)
        other = constraint.equals.rendered(self._shown)
        other = f"CAST({other} AS STRING)" if text else other
        names = [constraint.relation, constraint.over]
        violations, samples = 0, []
        for join in joins:
            conditions = [condition.rendered(self._shown) for condition in join.on]
            staging = self._staged([one, other], names, [*conditions, f"NOT ({one} <=> ({other}))"])
            nothing = self._nothing(2)
            found = self.opened.warehouse.compare_sets(staging, nothing, (True, False))
            violations += found.left_rows
            samples += [
                {"attribute": texts[0], "equals": texts[1], "rows": number} for number, _, texts in found.samples
            ]
        return _counted(violations, None, tuple(samples[:10]))

    def _join(self, constraint: JoinConstraint) -> Finding:
        pairs = [condition.equality for condition in constraint.on if condition.equality is not None]
        if len(pairs) < len(constraint.on):
            return Finding("holds", reason="a join promises nothing about rows")
        sides: dict[RelationName, list[str]] = {constraint.left: [], constraint.right: []}
        for pair in pairs:
            references = {self._relation(ref).name: ref for ref in pair}
            types = [self._type(name, references[name].column) for name in sides]
            for name, columns in sides.items():
                columns.append(_cast(self._shown(references[name]), self._common(*types)))
        staged = [
            # NULL joins with nothing.
            self._staged(columns, [name], [f"{column} IS NOT NULL" for column in columns])
            for name, columns in sides.items()
        ]
        found = self.opened.warehouse.compare_sets(staged[0], staged[1], (False, False))
        meeting = found.left_rows - found.left_alone
        reason = f"{meeting} of {found.left_rows} rows of {constraint.left} with a key meet {constraint.right}"
        return Finding("holds", rows=found.left_rows, reason=reason)

    # --- reading

    def _staged_projection(self, projection: Projection, types: Sequence[str | None]) -> Staging:
        shown = [self._shown(ColumnRef(str(projection.relation), column)) for column in projection.columns]
        values = [_cast(column, type_) for column, type_ in zip(shown, types, strict=True)]
        conditions = [condition.rendered(self._shown) for condition in projection.where]
        return self._staged(values, [projection.relation], conditions)

    def _staged(self, values: Sequence[str], names: Sequence[RelationName], conditions: Sequence[str]) -> Staging:
        """The rows of a query, written by Spark's tasks."""
        from dyda.maintenance.execute.task_failures import scanning
        from dyda.model.sql.parse import parse_view
        from dyda.sources.reading.copy import read_partition
        from vm import build_evaluation

        items = ", ".join(f"{value} AS c{number}" for number, value in enumerate(values, 1))
        tables = " CROSS JOIN ".join(f"{_table(name)} {self._alias(name)}" for name in names)
        where = " AND ".join(f"({condition})" for condition in conditions)
        text = f"SELECT {items} FROM {tables}" + (f" WHERE {where}" if where else "")
        definition = parse_view("knowledge", text, self._resolve, plain_numeric=self._numeric)
        block = self.opened.engine.block(definition)
        staging = self._nothing(len(values))
        with scanning():
            scanned = {
                one.alias: self.snapshots[one.relation.name.source].rows_or_partitions(
                    one.relation, one.columns, self.opened.project.settings.spark.small_scan
                )
                for one in block.occurrences
            }
            evaluation = build_evaluation(block, scanned)
            self.opened.engine.build([evaluation], staging.sink(), read_partition)
        return staging

    def _nothing(self, width: int) -> Staging:
        return self.stack.enter_context(self.opened.warehouse.staging(width))

    def _resolve(self, source: str, schema: str | None, table: str) -> Relation:
        return self.relations[RelationName(source, schema or "", table)]

    # --- names and types

    @property
    def _numeric(self) -> str:
        return self.opened.project.settings.spark.numeric

    def _alias(self, name: RelationName) -> str:
        return f"r{sorted(self.relations).index(name)}"

    def _shown(self, reference: ColumnRef) -> str:
        name = self._relation(reference).name
        return str(replace(reference, alias=self._alias(name)))

    def _relation(self, reference: ColumnRef) -> Relation:
        return next(relation for name, relation in self.relations.items() if str(name) == reference.alias)

    def _type(self, name: RelationName, column: str) -> PgType:
        return self.relations[name].column(column).type

    def _common(self, one: PgType, other: PgType) -> str | None:
        """The Spark type in which values of both are compared; None: by their texts."""
        left, right = one.computation(self._numeric), other.computation(self._numeric)
        if left is None or right is None:
            return None
        if left.spark_type == right.spark_type:
            return left.spark_type
        families = {left.family, right.family}
        if families <= {"integer"}:
            return "BIGINT"
        if families & {"real", "double"}:
            return "DOUBLE"
        if families <= {"integer", "numeric"}:
            scales = [type_.spark_type.rpartition(",")[2].rstrip(")") for type_ in (left, right)]
            return f"DECIMAL(38,{max(int(scale) for scale in scales if scale.isdigit())})"
        if families & {"timestamptz"}:
            return "TIMESTAMP"
        if families & {"timestamp"}:
            return "TIMESTAMP_NTZ"
        return "STRING"


def _counted(violations: int, rows: int | None, samples: tuple[Mapping[str, Any], ...]) -> Finding:
    return Finding("violated" if violations else "holds", violations, rows, None, samples)


def _cast(column: str, type_: str | None) -> str:
    return f"CAST({column} AS {type_ or 'STRING'})"


def _table(name: RelationName) -> str:
    return ".".join("`" + part.replace("`", "``") + "`" for part in (name.source, name.schema, name.table))
