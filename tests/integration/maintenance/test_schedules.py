"""Interleavings as data: fixtures/schedules/*.spec say what commits where, and what must come of it.

    source crm: CREATE TABLE …; INSERT …          a source database and how it begins
    view v: SELECT …                              `\n` begins a new line
    knowledge: join = [{…}]                       a line of knowledge.toml
    set: consistency = "complete"                 a line of [maintenance]
    transaction t1 crm: INSERT …                  a transaction at a source; DDL is one too

    permutation: t1 t2 [sweep.before-hop] t3      one test: t1 and t2 commit before the first cycle, t3 when this fault
                                                  point is first passed; [sweep.before-hop 2]: for the second time
    order: t3 t1+t2                               the installations, in order; + joins what one installation took
    aborts: 1                                     units that had to be abandoned; default: 0
    state v: broken                               default: fresh
    reason v: dropped                             a word in the reason

The last four lines belong to the permutation above them. At the end every view that is not broken equals PostgreSQL's
own recomputation, and a broken one its last rows.
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
from dyda.maintenance.cycle import Outcome
from dyda.model.position import Position
from tests.town import Town

pytestmark = pytest.mark.long

FOLDER = Path(__file__).parents[3] / "fixtures" / "schedules"


@dataclass
class Permutation:
    """What commits when, by moment (`start`, `unit.evaluated`), and what must come of it."""

    text: str
    moments: dict[str, list[str]]
    order: list[list[str]] | None = None
    aborts: int = 0
    states: dict[str, str] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, text: str) -> Permutation:
        moments: dict[str, list[str]] = {}
        moment = "start"
        for point, transaction in re.findall(r"\[(.*?)\]|(\S+)", text):
            moment = point or moment
            moments.setdefault(moment, [])
            if transaction:
                moments[moment].append(transaction)
        return cls(text, moments)


@dataclass
class Spec:
    sources: dict[str, str] = field(default_factory=dict)
    views: dict[str, str] = field(default_factory=dict)
    settings: list[str] = field(default_factory=list)
    knowledge: list[str] = field(default_factory=list)
    transactions: dict[str, tuple[str, str]] = field(default_factory=dict)
    permutations: list[Permutation] = field(default_factory=list)

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
                case ["permutation"]:
                    spec.permutations.append(Permutation.read(rest))
                case ["order"]:
                    spec.permutations[-1].order = [sorted(unit.split("+")) for unit in rest.split()]
                case ["aborts"]:
                    spec.permutations[-1].aborts = int(rest)
                case ["state", view]:
                    spec.permutations[-1].states[view] = rest
                case ["reason", view]:
                    spec.permutations[-1].reasons[view] = rest
                case _:
                    raise ValueError(f"no such line in a schedule: {line}")
        return spec


def cases() -> list[object]:
    found: list[object] = []
    for path in sorted(FOLDER.glob("*.spec")):
        spec = Spec.read(path.read_text())
        used = {name for one in spec.permutations for names in one.moments.values() for name in names}
        assert used == spec.transactions.keys(), f"{path.name}: {used ^ spec.transactions.keys()}"
        found += [pytest.param(spec, one, id=f"{path.stem}: {one.text}") for one in spec.permutations]
    assert len(found) >= 98
    return found


class Play:
    """One permutation of a spec, played against real databases."""

    def __init__(self, spec: Spec, moments: dict[str, list[str]], town: Town) -> None:
        self.spec, self.town = spec, town
        self.moments = dict(moments)
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
            self.commit(self.moments.pop(f"{point} {number}" if number > 1 else point, []))
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
        self.commit(self.moments.pop("start", []))
        points = {moment.split()[0] for moment in self.moments} | {"install.committed"}
        with ExitStack() as stack:
            for point in points:
                stack.enter_context(faults.on(point, self.at(point)))
            maintainer = stack.enter_context(self.town.maintainer())
            for _ in range(50):
                if maintainer.cycle() is Outcome.IDLE:
                    return maintainer.planner.aborts
        raise AssertionError("not idle after 50 cycles")


@pytest.mark.parametrize(("spec", "permutation"), cases())
def test_schedule(spec: Spec, permutation: Permutation, new_town: Callable[..., Town]) -> None:
    town = new_town("\n".join(spec.settings))
    for name, statements in spec.sources.items():
        town.source(name, *re.split(r";\s*", statements))
    for name, text in spec.views.items():
        town.view(name, text)
    (town.folder / "knowledge.toml").write_text("\n".join(spec.knowledge))
    town.apply()
    play = Play(spec, permutation.moments, town)
    play.extents = {view: town.extent(view) for view in spec.views}
    aborts = play.run()
    assert not play.moments, f"never reached: {play.moments}"
    assert aborts == permutation.aborts
    if permutation.order is not None:
        assert play.installed == permutation.order
    for view in spec.views:
        state = town.state(view)
        assert state["state"] == permutation.states.get(view, "fresh"), state["reason"]
        assert permutation.reasons.get(view, "") in (state["reason"] or "")
        if state["state"] == "broken":
            assert town.extent(view) == play.extents[view], "a broken view keeps its last correct rows"
    alive = [view for view in spec.views if permutation.states.get(view, "fresh") == "fresh"]
    town.check_definitions(*alive)
