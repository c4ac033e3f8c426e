"""What planning takes: by the length of the queue, while a queue is drained, and as a share of real units.

The queue to plan, 200 relations with one message in a hundred a schema change, drops columns everywhere, so that most
of it is one cycle; the queue to drain renames columns of one source, so that nothing merges and every rename makes a
new plan necessary. Both are the pure scheduler's, in processor time. What share of a drain planning is, and whether a
drain takes time in proportion to its queue, real units tell (`benchmarks.scenarios.draining`).
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace

from benchmarks.harness.measuring import Sample, shown
from benchmarks.report.report import Bar, Plot, Report
from benchmarks.scenarios import draining
from dyda.model.message import Change, DataUpdate, SchemaChange, UpdateMessage
from dyda.model.relation import RelationName
from scheduler import Consistency, Queued, Schedule, ViewReads
from tests.unit.scheduler.builders import effect
from tests.unit.scheduler.naive import legal_order, pair_graph

__all__ = ["Drain", "drain", "planning_seconds", "queue", "run", "views"]

SOURCES = 4
RELATIONS = 200
VIEWS = 100
COLUMNS = tuple(f"c{index}" for index in range(10))
LENGTHS = {"tiny": (100, 200), **dict.fromkeys(("quick", "full"), (12_500, 25_000, 50_000, 100_000))}
ROUNDS = {"tiny": 1, "quick": 5, "full": 5}
DRAINED = {"tiny": (100,), "quick": (5_000, 10_000), "full": (5_000, 10_000, 20_000)}


def relation(index: int) -> RelationName:
    return RelationName(f"source{index % SOURCES}", "public", f"relation{index}")


def views(seed: int) -> list[ViewReads]:
    """Views over one relation of the first source and two others, with half of their columns."""
    chance = random.Random(seed)
    found = []
    for number in range(VIEWS):
        others = [index for index in range(RELATIONS) if index % SOURCES]
        used = [chance.randrange(0, RELATIONS, SOURCES), *chance.sample(others, 2)]
        reads = {relation(index): frozenset(chance.sample(COLUMNS, 5)) for index in used}
        found.append(ViewReads(f"view{number}", reads))
    return found


def queue(length: int, seed: int, command: str, share: float = 0.01) -> list[Queued]:
    """Data updates of one or two relations; a share of the messages drops a column, or renames one in source 0."""
    chance = random.Random(seed)
    renamed: dict[tuple[int, str], str] = {}
    messages = []
    for number in range(length):
        first = chance.randrange(RELATIONS)
        changes: tuple[Change, ...] = (DataUpdate(relation(first), 3, 1),)
        if chance.random() < share:
            first = first if command == "DROP" else first - first % SOURCES
            column = chance.choice(COLUMNS)
            old = renamed.get((first, column), column)
            renamed[first, column] = f"{column}_{number}"
            told = f"DROP {old}" if command == "DROP" else f"RENAME {old} {column}_{number}"
            changes = (SchemaChange(relation(first), told),)
        elif chance.random() < 0.2:
            second = (first + SOURCES * chance.randrange(1, RELATIONS // SOURCES)) % RELATIONS
            changes += (DataUpdate(relation(second), 1, 0),)
        messages.append(Queued(number, UpdateMessage(relation(first).source, number, number, changes)))
    return messages


def planning_seconds(length: int, seed: int = 0) -> float:
    """Seconds from a received queue to its first unit, graph and components and all."""
    schedule = Schedule(views(seed), effect=effect)
    schedule.add(queue(length, seed, "DROP"))
    started = time.process_time()
    schedule.next_unit(Consistency.STRONG, 10_000)
    return time.process_time() - started


@dataclass(frozen=True)
class Drain:
    """A queue emptied unit by unit, and the seconds that scheduling it took."""

    messages: int
    units: int
    plans: int
    seconds: float


def drain(length: int, consistency: Consistency, seed: int = 0) -> Drain:
    """Drain a queue of data updates and renames; the views follow each rename, so that planning starts anew."""
    current = views(seed)
    schedule = Schedule(current, effect=effect)
    messages = queue(length, seed, "RENAME")
    processed: list[int] = []
    units = 0
    spent = -time.process_time()
    schedule.add(messages)
    while (unit := schedule.next_unit(consistency, 10_000)) is not None:
        schedule.remove(unit.numbers)
        spent += time.process_time()
        units += 1
        processed += unit.numbers
        for queued in unit.messages:
            for change in queued.message.changes:
                if isinstance(change, SchemaChange):
                    _, old, new = change.command.split()
                    current = [_follow(view, change.relation, old, new) for view in current]
        spent -= time.process_time()
        schedule.change_views(current)
    spent += time.process_time()
    if sorted(processed) != list(range(length)):
        raise AssertionError("a drain processes every message once")
    return Drain(length, units, schedule.plans, spent)


def _follow(view: ViewReads, name: RelationName, old: str, new: str) -> ViewReads:
    columns = view.reads.get(name)
    if columns is None or old not in columns:
        return view
    return replace(view, reads={**view.reads, name: columns - {old} | {new}})


def require_legal(length: int = 150, seed: int = 0) -> None:
    """Definitions 2 to 7 of paper 001 as they stand, pair by pair, say the same of a queue that is short enough."""
    for command in ("DROP", "RENAME"):
        schedule = Schedule(views(seed), effect=effect)
        messages = queue(length, seed, command, share=0.1)
        schedule.add(messages)
        planned = [frozenset(unit.numbers) for unit in schedule.units(Consistency.COMPLETE, 1)]
        if planned != legal_order(pair_graph(messages, views(seed))):
            raise AssertionError(f"a queue that {command}s columns is not in its legal order")


def run(profile: str) -> Report:
    require_legal()
    report = Report("planning", "planning, milliseconds (processor time in the pure scheduler)", [])
    report.columns = ["what", "messages", "units", "plans", "planning", "planning's share"]
    planned = _planned(LENGTHS[profile], range(ROUNDS[profile]))
    for length, sample in planned.items():
        report.rows.append(["to the first unit", f"{length:,}", "1", "1", str(sample), ""])
    drains = [(mode, drain(length, mode)) for length in DRAINED[profile] for mode in Consistency]
    for mode, found in drains:
        counted = [f"{number:,}" for number in (found.messages, found.units, found.plans)]
        report.rows.append([f"drain, {mode.value}", *counted, shown(found.seconds), ""])
    real, report.ran_on["postgres"] = draining.measured(profile)
    for one in real:
        counted = [f"{one.messages:,}", str(sum(one.kinds.values())), ""]
        report.rows.append(["drain of real units", *counted, shown(one.phases["plan"]), f"{one.share:.1%}"])
    longer, shorter = LENGTHS[profile][-1], LENGTHS[profile][-2]
    ratio = planned[longer].median / max(planned[shorter].median, 1e-9)
    report.bars = [
        Bar(f"planning {longer:,} messages ÷ {shorter:,}", ratio, most=2.3),
        Bar("planning ÷ a drain of real units, worst", max(one.share for one in real), most=0.1),
    ]
    if len(real) > 1:
        report.bars.append(Bar(*draining.growth(real), most=6))
    report.plots = [_plot(planned, drains, real)]
    report.data = {
        "planned": {str(length): sample.seconds for length, sample in planned.items()},
        "drained": [{"consistency": mode.value, **asdict(found)} for mode, found in drains],
        "real": [asdict(one) for one in real],
    }
    report.notes += [one.told for one in real]
    return report


def _planned(lengths: Sequence[int], seeds: Iterable[int]) -> dict[int, Sample]:
    """One queue of each length per seed, the lengths in turn."""
    found: dict[int, list[float]] = {length: [] for length in lengths}
    for seed in seeds:
        for length in lengths:
            found[length].append(planning_seconds(length, seed))
    return {length: Sample(tuple(seconds)) for length, seconds in found.items()}


def _plot(planned: dict[int, Sample], drains: list[tuple[Consistency, Drain]], real: list[draining.Drained]) -> Plot:
    lines: dict[str, list[tuple[float, ...]]] = {
        "to the first unit": [(n, s.median * 1000, s.spread[0] * 1000, s.spread[1] * 1000) for n, s in planned.items()]
    }
    for mode, found in drains:
        lines.setdefault(f"drain, {mode.value}", []).append((found.messages, found.seconds * 1000))
    lines["drain of real units"] = [(one.messages, one.phases["plan"] * 1000) for one in real]
    return Plot("planning", "messages in the queue", "milliseconds of planning", lines, "xy")
