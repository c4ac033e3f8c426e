"""How a view is maintained, as data: the plan that `sweep` follows, said in words for `dyda views explain`."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations
from typing import assert_never

import networkx as nx

from dyda.model.operator_state import Counted, Grouped, Kept
from dyda.model.relation import RelationName
from vm.join_tree import SweepPlan
from vm.program import WAREHOUSE, Program, Step, Term, state_number

__all__ = ["ExplainRow", "explain", "explain_program", "read_whole", "source_queries"]


@dataclass(frozen=True)
class ExplainRow:
    """One line. `step`: scan, step, term, relation, join, condition, output or cost; `queries` only for costs:
    what a change of the subject asks for."""

    step: str
    subject: str
    how: str
    queries: int | None = None


def explain(plan: SweepPlan) -> list[ExplainRow]:
    """Every operator of the view and what a change of each occurrence costs."""
    block = plan.block
    rows = [
        ExplainRow(
            "relation", f"{occurrence.relation.name} {occurrence.alias}", f"reads {', '.join(occurrence.columns)}"
        )
        for occurrence in block.occurrences
    ]
    used = set()
    for component in plan.components:
        for edge in component.edges:
            pairs = [f"{edge.left}.{left} = {edge.right}.{right}" for left, right in edge.pairs]
            used |= {frozenset([(edge.left, left), (edge.right, right)]) for left, right in edge.pairs}
            rows.append(ExplainRow("join", " AND ".join(pairs), "lookup by key, in both directions"))
    for one, other in zip(plan.components, plan.components[1:], strict=False):
        subject = f"({', '.join(one.aliases)}) with ({', '.join(other.aliases)})"
        rows.append(
            ExplainRow("join", subject, "no equality that a source can look up: the other side is scanned whole")
        )
    for conjunct in block.conjuncts:
        pair = frozenset((ref.alias, ref.column) for ref in conjunct.equality or ())
        if pair not in used:
            rows.append(ExplainRow("condition", conjunct.sql, "linear: checked on Spark"))
    for item in block.items:
        how = "passed on as PostgreSQL's own text" if item.expression.column else "linear: computed on Spark"
        rows.append(ExplainRow("output", item.name, how))
    for occurrence in block.occurrences:
        queries = plan.queries(occurrence.alias)
        mine = next(component for component in plan.components if occurrence.alias in component.aliases)
        lookups = len(mine.aliases) - 1
        parts = [_counted(lookups, "lookup")] if lookups else []
        parts += [_counted(queries - lookups, "whole relation")] if queries > lookups else []
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
        for term in step.terms:
            rows += _term_rows(term)
    for alias, occurrence in {occurrence.alias: occurrence for occurrence in program.occurrences}.items():
        most, again = source_queries(program, alias)
        told = _counted(most, "lookup") if most else "no source query"
        if again:
            told += f"; {again} more where groups must be read again"
        rows.append(ExplainRow("cost", alias, f"{told} ({occurrence.relation.name})", most))
    whole = [
        ExplainRow("scan", alias, f"read whole with a change of {changed}") for alias, changed in read_whole(program)
    ]
    return [*whole, *rows]


def read_whole(program: Program) -> list[tuple[str, str]]:
    """Occurrences of source relations that some change reads whole, and what has to change for that.

    A view without any is maintained at a cost that follows the change, whatever the size of its relations.
    """
    found: dict[tuple[str, str], None] = {}
    for step in program.steps:
        for term in step.terms:
            for one, other in permutations(term.plan.components, 2):
                changed = " or ".join(_shown(term, alias) for alias in one.aliases)
                for alias in other.aliases:
                    if term.block.by_alias[alias].relation.name.source != WAREHOUSE:
                        found[alias, changed] = None
        again = isinstance(step.state, Grouped) and any(
            a.recomputed or a.function in ("min", "max") for a in step.state.accumulators
        )
        if again and not _plain_keys(step):
            for term in step.terms:
                for occurrence in term.block.occurrences:
                    if occurrence.relation.name.source != WAREHOUSE:
                        found[occurrence.alias, f"a group of step {step.number + 1} that is read again"] = None
    return list(found)


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
    changed = {alias}
    moved: set[int] = set()
    asked: set[tuple[RelationName, tuple[str, ...]]] = set()
    again: set[tuple[RelationName, tuple[str, ...]]] = set()
    for step in program.steps:
        touched = False
        for term in step.terms:
            starts = {
                occurrence.alias
                for occurrence in term.block.occurrences
                if occurrence.alias in changed or state_number(occurrence.relation) in moved
            }
            if starts:
                touched = True
                asked |= _asked(term, starts)
        if touched:
            moved.add(step.number)
            if isinstance(step.state, Grouped) and any(
                a.recomputed or a.function in ("min", "max") for a in step.state.accumulators
            ):
                for term in step.terms:
                    again |= {
                        (one.relation.name, ())
                        for one in term.block.occurrences
                        if one.relation.name.source != WAREHOUSE
                    }
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
            told = [f"keyed by the group; {', '.join(['row counts', *kept])} from its own state: no source query"]
            if extremes:
                told.append(f"{', '.join(extremes)}: a group is read again when its extreme was deleted")
            if again:
                told.append(f"{', '.join(again)}: the touched groups are read again")
            if extremes or again:
                told.append(_demanded(step))
            return "; ".join(told)
        case _:
            assert_never(step.state)


def _demanded(step: Step) -> str:
    """How the rows of a group are found."""
    plain = _plain_keys(step)
    if not plain:
        return "its rows are found by reading the whole input: no key of the group is a column"
    return f"its rows are looked up by {', '.join(plain)}"


def _term_rows(term: Term) -> list[ExplainRow]:
    """One line per term: what it joins, and how."""
    block = term.block
    names = [
        f"{one.relation.name} {one.alias}"
        if (number := state_number(one.relation)) is None
        else f"the state of step {number + 1}"
        for one in block.occurrences
    ]
    sign = "+" if term.sign > 0 else "−"
    pairs = [
        f"{edge.left}.{left} = {edge.right}.{right}"
        for component in term.plan.components
        for edge in component.edges
        for left, right in edge.pairs
    ]
    how = f"lookups along {' AND '.join(pairs)}" if pairs else "its own changes alone"
    if len(term.plan.components) > 1:
        how += "; no equality leads between some of them: scanned whole"
    return [ExplainRow("term", f"{sign} {' ⋈ '.join(names)}", how)]
