"""How long planning takes: `python -m benchmarks.planning`.

Two questions. Does doubling a queue of 50,000 messages over 200 relations, one in a hundred a schema change, at most
2.3-fold planning time? And what does planning cost while 20,000 messages are drained, every schema change rewriting
the views it concerns? The queue to plan drops columns everywhere, so that most of it is one cycle; the queue to drain
renames columns of one source, so that nothing merges and every rename makes a new plan necessary. Medians of several
runs, in processor time; no database and no Spark, the pure scheduler only.
"""

from __future__ import annotations

import random
import statistics
import time
from dataclasses import dataclass, replace

from dyda.model.message import Change, DataUpdate, SchemaChange, UpdateMessage
from dyda.model.relation import RelationName
from scheduler import Consistency, Effect, Queued, Schedule, ViewReads, effect_of

__all__ = ["Drain", "drain", "main", "planning_seconds", "queue", "views"]

SOURCES = 4
RELATIONS = 200
VIEWS = 100
COLUMNS = tuple(f"c{index}" for index in range(10))
SECONDS_PER_UNIT = 0.2
"""What a small unit takes in a warm session: its sweep, one Spark job and the installation."""


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


def queue(length: int, seed: int, command: str) -> list[Queued]:
    """Data updates of one or two relations; one message in a hundred drops a column, or renames one in source 0."""
    chance = random.Random(seed)
    renamed: dict[tuple[int, str], str] = {}
    messages = []
    for number in range(length):
        first = chance.randrange(RELATIONS)
        changes: tuple[Change, ...] = (DataUpdate(relation(first), 3, 1),)
        if chance.random() < 0.01:
            first = first if command == "DROP" else first - first % SOURCES
            column = chance.choice(COLUMNS)
            old = renamed.get((first, column), column)
            renamed[first, column] = f"{column}_{number}"
            changes = (SchemaChange(relation(first), command, f"{old} {column}_{number}"),)
        elif chance.random() < 0.2:
            second = (first + SOURCES * chance.randrange(1, RELATIONS // SOURCES)) % RELATIONS
            changes += (DataUpdate(relation(second), 1, 0),)
        messages.append(Queued(number, UpdateMessage(relation(first).source, number, number, changes)))
    return messages


def effect(change: Change) -> Effect | None:
    """A drop concerns one column; a rename concerns two names of one column, and following it reads nothing."""
    if not isinstance(change, SchemaChange):
        return effect_of(change)
    old, new = change.ddl.split()
    if change.command == "DROP":
        return Effect(change.relation, frozenset({old}), "drops")
    columns = frozenset({old, new})
    return Effect(change.relation, columns, f"renames to {new}", metadata_only=True, renamed_column=(old, new))


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

    @property
    def share(self) -> float:
        """Planning's part of the drain, if every unit takes `SECONDS_PER_UNIT`."""
        return self.seconds / (self.seconds + self.units * SECONDS_PER_UNIT)


def drain(length: int, consistency: Consistency, seed: int = 0) -> Drain:
    """Drain a queue of data updates and renames; the views follow each rename, so that planning starts anew."""
    current = views(seed)
    schedule = Schedule(current, effect=effect)
    messages = queue(length, seed, "RENAME")
    units = 0
    spent = -time.process_time()
    schedule.add(messages)
    while (unit := schedule.next_unit(consistency, 10_000)) is not None:
        schedule.remove(unit.numbers)
        spent += time.process_time()
        units += 1
        for queued in unit.messages:
            for change in queued.message.changes:
                if isinstance(change, SchemaChange):
                    old, new = change.ddl.split()
                    current = [_follow(view, change.relation, old, new) for view in current]
        spent -= time.process_time()
        schedule.change_views(current)
    return Drain(length, units, schedule.plans, spent + time.process_time())


def _follow(view: ViewReads, name: RelationName, old: str, new: str) -> ViewReads:
    columns = view.reads.get(name)
    if columns is None or old not in columns:
        return view
    return replace(view, reads={**view.reads, name: columns - {old} | {new}})


def main() -> None:
    small, large = (
        statistics.median(planning_seconds(length, seed) for seed in range(5)) for length in (50_000, 100_000)
    )
    print(f"planning  50,000 messages: {small * 1000:6.0f} ms")
    print(f"planning 100,000 messages: {large * 1000:6.0f} ms, {large / small:.2f} times as long (at most 2.3)")
    for consistency in Consistency:
        found = drain(20_000, consistency)
        print(
            f"draining {found.messages:,} messages, {consistency.value}: {found.units:,} units, {found.plans} plans, "
            f"{found.seconds:.2f} s of planning, {found.share:.1%} of the drain at {SECONDS_PER_UNIT} s per unit "
            "(at most 10 %)"
        )


if __name__ == "__main__":
    main()
