"""How a view is maintained, as data: the plan that `sweep` follows, said in words for `dyda views explain`."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations
from typing import assert_never

import networkx as nx

from dyda.model.operator_state import Counted, Grouped, Kept
from dyda.model.relation import RelationName
from vm.join_block import Occurrence
from vm.join_tree import SweepPlan
from vm.program import WAREHOUSE, Program, Step, Term, state_number

__all__ = ["ExplainRow", "explain", "explain_program", "read_whole", "source_queries"]


@dataclass(frozen=True)
class ExplainRow:
    """One line. `step`: scan, step, term, relation, join, condition, output or cost; `queries`: of costs alone."""

    step: str
    subject: str
    how: str
    queries: int | None = None


def explain(plan: SweepPlan) -> list[ExplainRow]:
    """Every operator of the view and what a change of each occurrence costs."""
    block = plan.block
    rows = [
        ExplainRow("relation", f"{one.relation.name} {one.alias}", f"reads {', '.join(one.columns)}")
        for one in block.occurrences
    ]
    used = set()
    for component in plan.components:
        for edge in component.edges:
            pairs = [f"{edge.left}.{left} = {edge.right}.{right}" for left, right in edge.pairs]
            used |= {frozenset([(edge.left, left), (edge.right, right)]) for left, right in edge.pairs}
            rows.append(ExplainRow("join", " AND ".join(pairs), "lookup by key, in both directions"))
    for one, other in zip(plan.components, plan.components[1:], strict=False):
        subject = f"({', '.join(one.aliases)}) with ({', '.join(other.aliases)})"
        rows.append(ExplainRow("join", subject, "no equality that a source can look up: the other side is scanned"))
    for conjunct in block.conjuncts:
        pair = frozenset((ref.alias, ref.column) for ref in conjunct.equality or ())
        if pair not in used:
            rows.append(ExplainRow("condition", conjunct.sql, "linear: checked on Spark"))
    for item in block.items:
        how = "passed on as PostgreSQL's own text" if item.expression.column else "linear: computed on Spark"
        rows.append(ExplainRow("output", item.name, how))
    for occurrence in block.occurrences:
        queries = plan.queries(occurrence.alias)
        lookups = len(plan.component(occurrence.alias).aliases) - 1
        parts = [_counted(lookups, "lookup")] if lookups else []
        parts += [_counted(queries - lookups, "scan")] if queries > lookups else []
        rows.append(ExplainRow("cost", occurrence.alias, " and ".join(parts) or "no source query", queries))
    return rows


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def explain_program(program: Program) -> list[ExplainRow]:
    """Every step of a view: its rule, the state that it needs, where that comes from, and what changes cost."""
    if len(program.steps) == 1 and len(program.last.terms) == 1:
        return explain(program.last.terms[0].plan)
    rows = []
    for step in program.steps:
        name = f"step {step.number + 1}" if step.state is not None else "the view"
        rows.append(ExplainRow("step", f"{name}: {step.purpose or 'its rows'}", _rule(step)))
        rows += map(_term, step.terms)
    for alias, occurrence in {occurrence.alias: occurrence for occurrence in program.occurrences}.items():
        most, again = source_queries(program, alias)
        cost = _counted(most, "lookup") if most else "no source query"
        if again:
            cost += f"; {again} more where groups must be read again"
        rows.append(ExplainRow("cost", alias, f"{cost} ({occurrence.relation.name})", most))
    scans = [ExplainRow("scan", alias, f"scanned for a change of {change}") for alias, change in read_whole(program)]
    return [*scans, *rows]


def read_whole(program: Program) -> list[tuple[str, str]]:
    """Occurrences of source relations that some change scans, and which change. A view without any is maintained at a
    cost that follows the change, whatever the size of its relations."""
    found: dict[tuple[str, str], None] = {}
    for step in program.steps:
        for term in step.satisfiable:
            for one, other in permutations(term.plan.components, 2):
                changed = " or ".join(_shown(term, alias) for alias in one.aliases)
                for alias in other.aliases:
                    if term.block.by_alias[alias].relation.name.source != WAREHOUSE:
                        found[alias, changed] = None
        if _rereads(step) and not _plain_keys(step):
            for occurrence in _at_sources(step):
                found[occurrence.alias, f"a group of step {step.number + 1} that is read again"] = None
    return list(found)


def _rereads(step: Step) -> bool:
    """Whether groups may have to be read again: subtracting does not undo what their aggregates added."""
    return isinstance(step.state, Grouped) and any(
        a.recomputed or a.function in ("min", "max") for a in step.state.accumulators
    )


def _at_sources(step: Step) -> list[Occurrence]:
    occurrences = (occurrence for term in step.satisfiable for occurrence in term.block.occurrences)
    return [occurrence for occurrence in occurrences if occurrence.relation.name.source != WAREHOUSE]


def _shown(term: Term, alias: str) -> str:
    number = state_number(term.block.by_alias[alias].relation)
    return alias if number is None else f"the state of step {number + 1}"


def _plain_keys(step: Step) -> list[str]:
    """The columns by which the rows of a group are found."""
    assert isinstance(step.state, Grouped)
    plain = [ref for term in step.terms for ref in term.plain[: len(step.state.keys)] if ref is not None]
    return list(dict.fromkeys(f"{ref.alias}.{ref.column}" for ref in plain))


def source_queries(program: Program, alias: str) -> tuple[int, int]:
    """How often sources are asked at the most when one occurrence has changed, and how often more if groups have to
    be read again. A relation is asked once per key, whatever the number of terms."""
    changed: set[int] = set()
    asked: set[tuple[RelationName, tuple[str, ...]]] = set()
    again: set[RelationName] = set()
    for step in program.steps:
        for term in step.satisfiable:
            occurrences = term.block.occurrences
            starts = {one.alias for one in occurrences if one.alias == alias or state_number(one.relation) in changed}
            if starts:
                changed.add(step.number)
                asked |= _asked(term, starts)
        if step.number in changed and _rereads(step):
            again |= {occurrence.relation.name for occurrence in _at_sources(step)}
    return len(asked), len(again)


def _asked(term: Term, starts: set[str]) -> set[tuple[RelationName, tuple[str, ...]]]:
    """Each directed edge behind which something changed is one question; whole relations count as one each."""
    block = term.block
    found: set[tuple[RelationName, tuple[str, ...]]] = set()
    touched = [c for c in term.plan.components if starts & set(c.aliases)]
    for component in term.plan.components:
        if component not in touched or len(touched) > 1:
            found |= {(block.by_alias[alias].relation.name, ("*",)) for alias in component.aliases}
            continue
        graph = nx.Graph([(edge.left, edge.right) for edge in component.edges])
        for edge in component.edges:
            for sender, target in ((edge.left, edge.right), (edge.right, edge.left)):
                behind = graph.copy()
                behind.remove_edge(sender, target)
                if starts & set(nx.node_connected_component(behind, sender)):
                    found.add((block.by_alias[target].relation.name, edge.toward(target)[1]))
    return {(name, columns) for name, columns in found if name.source != WAREHOUSE}


def _rule(step: Step) -> str:
    match step.state:
        case None:
            return "linear: the sum of its terms"
        case Counted(rule=rule):
            how = "how often each is there" if rule == "distinct" else "how often each is on the left and on the right"
            return f"keyed by the row ({rule}); from counts of its own in the warehouse, {how}: no source query"
        case Kept():
            return "linear; materialized, because too many terms would read it"
        case Grouped(accumulators=accumulators):
            kept = sorted({a.function for a in accumulators if not a.recomputed and a.function not in ("min", "max")})
            extremes = sorted({a.function for a in accumulators if not a.recomputed and a.function in ("min", "max")})
            again = sorted({a.function for a in accumulators if a.recomputed})
            rules = [f"keyed by the group; {', '.join(['row counts', *kept])} from its own state: no source query"]
            if extremes:
                rules.append(f"{', '.join(extremes)}: a group is read again when its extreme was deleted")
            if again:
                rules.append(f"{', '.join(again)}: the touched groups are read again")
            if extremes or again:
                plain = ", ".join(_plain_keys(step))
                found = f"looked up by {plain}" if plain else "found by a scan: no key of the group is a column"
                rules.append(f"its rows are {found}")
            return "; ".join(rules)
        case _:
            assert_never(step.state)


def _term(term: Term) -> ExplainRow:
    """What the term joins, and how."""
    names = []
    for one in term.block.occurrences:
        shown = _shown(term, one.alias)
        names.append(f"{one.relation.name} {shown}" if shown == one.alias else shown)
    sign = "+" if term.sign > 0 else "−"
    if term.is_unsatisfiable:
        return ExplainRow(
            "term", f"{sign} {' ⋈ '.join(names)}", "nothing: a condition compares with NULL and is never true"
        )
    pairs = [
        f"{edge.left}.{left} = {edge.right}.{right}"
        for component in term.plan.components
        for edge in component.edges
        for left, right in edge.pairs
    ]
    how = f"lookups along {' AND '.join(pairs)}" if pairs else "its own changes alone"
    if len(term.plan.components) > 1:
        how += "; no equality connects some of them: scanned"
    return ExplainRow("term", f"{sign} {' ⋈ '.join(names)}", how)
