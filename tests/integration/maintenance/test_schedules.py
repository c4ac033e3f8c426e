"""Interleavings as data: fixtures/schedules/*.spec say what commits where, and what must come of it.

    source crm: CREATE TABLE …; INSERT …          a source database and how it begins
    view v: SELECT …                              `\n` begins a new line
    knowledge: join = [{…}]                       a line of knowledge.toml
    set: consistency = "complete"                 a line of [maintenance]
    transaction t1 crm: INSERT …                  a transaction at a source; DDL is one too
    at start: t1 t2                               committed before the first cycle, in this order
    at sweep.before-hop: t3                       committed when this fault point is first passed
    at sweep.before-hop 2: t4                     … when it is passed for the second time
    order: t3 t1+t2                               the installations, in order; + joins what one installation took
    aborts: 1                                     units that had to be abandoned
    state v: broken                               default: fresh
    reason v: dropped                             a word in the reason

At the end every view that is not broken equals PostgreSQL's own recomputation, and a broken one its last rows.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from dyda import faults
from dyda.maintenance import Outcome
from dyda.model.position import Position
from tests.town import Town

pytestmark = pytest.mark.long

SPECS = sorted((Path(__file__).parents[3] / "fixtures" / "schedules").glob("*.spec"))


@dataclass
class Spec:
    sources: dict[str, str] = field(default_factory=dict)
    views: dict[str, str] = field(default_factory=dict)
    settings: list[str] = field(default_factory=list)
    knowledge: list[str] = field(default_factory=list)
    transactions: dict[str, tuple[str, str]] = field(default_factory=dict)
    moments: dict[str, list[str]] = field(default_factory=dict)
    order: list[list[str]] | None = None
    aborts: int = 0
    states: dict[str, str] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, text: str) -> Spec:
        spec = cls()
        for line in text.splitlines():
            if not line.strip() or line.startswith("#"):
                continue
            head, _, rest = (part.strip() for part in line.partition(":"))
            match head.split():
                case ["source", name]:
                    spec.sources[name] = rest
                case ["view", name]:
                    spec.views[name] = rest.replace("\\n", "\n")
                case ["knowledge"]:
                    spec.knowledge.append(rest)
                case ["set"]:
                    spec.settings.append(rest)
                case ["transaction", name, source]:
                    spec.transactions[name] = (source, rest)
                case ["at", *moment]:
                    spec.moments[" ".join(moment)] = rest.split()
                case ["order"]:
                    spec.order = [sorted(unit.split("+")) for unit in rest.split()]
                case ["aborts"]:
                    spec.aborts = int(rest)
                case ["state", view]:
                    spec.states[view] = rest
                case ["reason", view]:
                    spec.reasons[view] = rest
                case _:
                    raise ValueError(f"no such line in a schedule: {line}")
        return spec


class Play:
    """One spec, played against real databases."""

    def __init__(self, spec: Spec, town: Town) -> None:
        self.spec, self.town = spec, town
        self.xids: dict[str, int] = {}
        self.passed: Counter[str] = Counter()
        self.installed: list[list[str]] = []
        self.extents: dict[str, Counter[str]] = {}

    def commit(self, names: list[str]) -> None:
        for name in names:
            source, statements = self.spec.transactions[name]
            self.xids[name] = self.town.execute(source, *re.split(r";\s*", statements))

    def at(self, point: str) -> Callable[[], None]:
        def hook() -> None:
            self.passed[point] += 1
            number = self.passed[point]
            self.commit(self.spec.moments.pop(f"{point} {number}" if number > 1 else point, []))
            if point == "install.committed":
                self.note()

        return hook

    def note(self) -> None:
        """Which transactions are in every view that reads their source now, and were not before."""
        at: dict[str, list[Position]] = defaultdict(list)
        for view in self.spec.views:
            state = self.town.state(view)
            if state["state"] != "broken":
                self.extents[view] = self.town.extent(view)
                for source, position in state["positions"].items():
                    at[source].append(Position.parse(position))
        known = {name for unit in self.installed for name in unit}
        fresh = [
            name
            for name, xid in self.xids.items()
            if name not in known and all(p.includes(xid) for p in at[self.spec.transactions[name][0]])
        ]
        if fresh:
            self.installed.append(sorted(fresh))

    def run(self) -> int:
        """Play until nothing is left; the number of abandoned units."""
        self.commit(self.spec.moments.pop("start", []))
        points = {moment.split()[0] for moment in self.spec.moments} | {"install.committed"}
        with ExitStack() as stack:
            for point in points:
                stack.enter_context(faults.on(point, self.at(point)))
            maintainer = stack.enter_context(self.town.maintainer())
            for _ in range(50):
                if maintainer.cycle() is Outcome.IDLE:
                    return maintainer.planner.aborts
        raise AssertionError("not idle after 50 cycles")


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_schedule(path: Path, new_town: Callable[..., Town]) -> None:
    spec = Spec.read(path.read_text())
    town = new_town("\n".join(spec.settings))
    for name, statements in spec.sources.items():
        town.source(name, *re.split(r";\s*", statements))
    for name, text in spec.views.items():
        town.view(name, text)
    (town.folder / "knowledge.toml").write_text("\n".join(spec.knowledge))
    town.apply()
    play = Play(spec, town)
    play.extents = {view: town.extent(view) for view in spec.views}
    aborts = play.run()
    assert not spec.moments, f"never reached: {spec.moments}"
    assert aborts == spec.aborts
    if spec.order is not None:
        assert play.installed == spec.order
    for view in spec.views:
        state = town.state(view)
        assert state["state"] == spec.states.get(view, "fresh"), state["reason"]
        assert spec.reasons.get(view, "") in (state["reason"] or "")
        if state["state"] == "broken":
            assert town.extent(view) == play.extents[view], "a broken view keeps its last correct rows"
    alive = [view for view in spec.views if spec.states.get(view, "fresh") == "fresh"]
    town.check_definitions(*alive)


def test_there_are_enough_of_them() -> None:
    assert len(SPECS) >= 40
