"""The checker: what must hold of a history, judged by PostgreSQL.

    violations = check(history, judge_url)      # an empty database of the judge's own
    assert not violations, "\\n\\n".join(map(str, violations))

It shares no code with the product. Each rule stops at the first violations it finds of a view: what follows is mostly
the same one again.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import cast

from tests.torture.bench import Bench, Name, NotEvaluated, State, names_of, selected_by
from tests.torture.history import Commit, History, Position, Read, Transaction, ViewState, digest
from tests.torture.shrinking import Shrinker, short
from tests.torture.states import Key, States

__all__ = ["RULES", "Report", "Violation", "check", "examine"]

RULES = {
    "correctness": "each committed extent equals its definition at its positions",
    "strong": "positions only move forward, through states that the source had, and all views of a commit agree",
    "complete": "each commit takes one source transaction, none is skipped, their order is kept",
    "readers": "a statement sees one commit; so does a transaction from REPEATABLE READ up; nobody goes back",
    "nothing lost": "at rest every transaction is in every view, the queue is empty, and so are the sources' logs",
    "frozen": "a view that is not maintained keeps its rows",
    "counts": "the product never finds itself about to install a row less than zero times",
    "alive": "a view breaks because something that it reads is gone, never because its text was left behind",
    "evolution": "a definition that replaces what was dropped keeps the rows, as its owner asks",
    "one writer": "whoever commits holds the project's lock",
    "keys": "a view is stored as one whose rows cannot repeat only while its tables have the keys that say so",
    "waiting": "no view takes what an operator has yet to decide about",
}
MAINTAINED = "live"
BELOW_ZERO = "negative_count"
"""The cause of a view whose counts do not add up. Building it anew hides what went wrong."""
ILLEGIBLE = ("there is no column", "has no table")
"""So the product says that a text means nothing. A file may be so, a text that follows its relations must not."""


@dataclass(frozen=True)
class Violation:
    """What is wrong, and the smallest history that shows it."""

    rule: str
    text: str
    commit: int | None = None
    view: str | None = None
    history: str = ""
    replay: str = ""

    def __str__(self) -> str:
        where = f" (commit {self.commit})" if self.commit is not None else ""
        return "\n".join(part for part in (f"{self.rule}{where}: {self.text}", self.history, self.replay) if part)


@dataclass(frozen=True)
class _Wrong:
    """What a view's rows violate under one reading of its names; `expected`: the rows that it should have."""

    rule: str
    text: str
    history: str = ""
    expected: Counter[str] | None = None


@dataclass
class Report:
    """What was checked: how many states of views were compared, how many of them were evaluated, and what was wrong."""

    violations: list[Violation] = field(default_factory=list)
    compared: int = 0
    evaluated: int = 0


def check(history: History, judge_url: str, mode: str | None = None) -> list[Violation]:
    """The violations of a history; none if it is right. `mode` is the consistency that was asked for."""
    return examine(history, judge_url, mode).violations


def examine(history: History, judge_url: str, mode: str | None = None, patience: float = 10.0) -> Report:
    """Like `check`, with the numbers. `patience`: seconds for making one violation small."""
    bench = Bench(judge_url)
    try:
        checker = _Checker(history, bench, mode or history.mode, patience)
        report = Report(list(checker.violations()), checker.compared, bench.evaluations)
    finally:
        bench.close()
    return report


class _Checker:
    def __init__(self, history: History, bench: Bench, mode: str, patience: float) -> None:
        self.history = history
        self.bench = bench
        self.mode = mode
        self.patience = patience
        self.compared = 0
        self.states = States(history)
        self.commits = sorted(history.commits, key=lambda commit: commit.number)
        self.replay = f"seed {history.seed}: {history.command}" if history.seed is not None else history.command
        self._positions: dict[str, Position] = {}
        self._answers: dict[object, str] = {}
        self._read: dict[tuple[str, tuple[tuple[str, str], ...]], set[tuple[str, int]]] = {}
        self._orders: dict[object, tuple[Transaction, Transaction] | None] = {}
        self._told: set[tuple[str, str | None]] = set()
        self._rewritten: set[str] = set()
        """Views that have lost columns and have not moved since."""

    def violations(self) -> Iterator[Violation]:
        before: Commit | None = None
        apart: set[str] = set()
        for commit in self.commits:
            yield from self._one_writer(before, commit)
            for name, view in commit.views.items():
                earlier = before.views.get(name) if before is not None else None
                yield from self._forward(commit, name, earlier, view)
                yield from self._possible(commit, name, earlier, view)
                yield from self._frozen(commit, name, earlier, view)
                yield from self._counts(commit, name, view)
                yield from self._alive(commit, name, earlier, view)
                yield from self._correct(commit, name, earlier, view)
                yield from self._promise(commit, name, earlier, view)
                yield from self._keys(commit, name, earlier, view)
                yield from self._undecided(commit, name, earlier, view)
            yield from self._agreement(before, commit, apart)
            if before is not None and self.mode == "complete":
                yield from self._one_at_a_time(before, commit, apart)
            before = commit
        yield from self._readers()
        yield from self._at_rest()

    # --- one commit, one view

    def _one_writer(self, before: Commit | None, commit: Commit) -> Iterator[Violation]:
        if before is not None and commit.holder and commit.backend != commit.holder:
            text = f"session {commit.backend} committed while session {commit.holder} held the project's lock"
            yield from self._violation("one writer", text, commit)

    def _forward(self, commit: Commit, name: str, earlier: ViewState | None, view: ViewState) -> Iterator[Violation]:
        for source, text in view.positions.items():
            old = earlier.positions.get(source) if earlier is not None else None
            if old is None or old == text:
                continue
            lost = self.states[source].added(self._position(text), self._position(old))
            if lost:
                what = f"view {name} went back from {source} {short(old)} to {short(text)}: without {_numbers(lost)}"
                yield from self._violation("strong", what, commit, name, _told(lost))

    def _possible(self, commit: Commit, name: str, earlier: ViewState | None, view: ViewState) -> Iterator[Violation]:
        """No position names a state that its source never had, as far as tables go that some view at it reads: what
        only views read that are left behind there is in no order yet."""
        for source, text in view.positions.items():
            if earlier is not None and earlier.positions.get(source) == text:
                continue
            here = [other for other in commit.views.values() if other.positions.get(source) == text]
            read = {table for other in here for table in self._tables(other)}
            oids = frozenset(oid for other, oid in read if other == source)
            key = (source, text, oids)
            if key not in self._orders:
                self._orders[key] = self.states[source].only(oids).out_of_order(self._position(text))
            found = self._orders[key]
            if found is not None:
                early, late = found
                what = (
                    f"view {name} stands at {source} {short(text)}, a state that the source never had:"
                    f" {source} {late.xid} is in it and {source} {early.xid}, which had ended before that began, is not"
                )
                yield from self._violation("strong", what, commit, name, _told([early, late]))

    def _frozen(self, commit: Commit, name: str, earlier: ViewState | None, view: ViewState) -> Iterator[Violation]:
        if earlier is None or view.state == MAINTAINED or earlier.rows == view.rows:
            return
        if (view.version, view.positions) == (earlier.version, earlier.positions):
            bags = self.history.bags
            what = (
                f"view {name} is {view.state}, and its rows changed: {_difference(bags[view.rows], bags[earlier.rows])}"
            )
            yield from self._violation("frozen", what, commit, name)

    def _counts(self, commit: Commit, name: str, view: ViewState) -> Iterator[Violation]:
        if view.cause is not None and view.cause["kind"] == BELOW_ZERO:
            yield from self._violation("counts", f"view {name} is {view.state}: {view.cause['detail']}", commit, name)

    def _alive(self, commit: Commit, name: str, earlier: ViewState | None, view: ViewState) -> Iterator[Violation]:
        breaks = view.state == "broken" and earlier is not None and earlier.state != "broken"
        told = json.dumps(view.cause, ensure_ascii=False)
        if breaks and any(words in told for words in ILLEGIBLE):
            yield from self._violation("alive", f"view {name} breaks: {told}", commit, name)

    def _correct(self, commit: Commit, name: str, earlier: ViewState | None, view: ViewState) -> Iterator[Violation]:
        if view.state != MAINTAINED and earlier is not None and _same(earlier, view):
            return  # what it was frozen with was judged then
        if view.state in ("building", "resync") or (earlier is None and self.history.carried):
            return
        self.compared += 1
        found: list[_Wrong] = []
        for named in self._namings(commit, view):
            wrong = self._judged(name, view, named)
            if wrong is None:
                return
            found.append(wrong)
        first = found[0]
        history = first.history
        if first.expected is not None and (first.rule, name) not in self._told:
            shrinker = Shrinker(self.history, self.states, self.bench, self.loadable, self.patience)
            history = shrinker.smallest(name, commit, earlier, view, first.expected)
        yield from self._violation(first.rule, first.text, commit, name, history)

    def _namings(self, commit: Commit, view: ViewState) -> Iterator[Mapping[str, Position]]:
        """Where the definition's names are looked up: where the view stands; and where others stand already, whose
        names a view that is left behind has to use, since the catalog knows each relation once."""
        own = {source: self._position(text) for source, text in view.positions.items()}
        yield own
        for other in {tuple(sorted(other.positions.items())) for other in commit.views.values()}:
            ahead = {source: self._position(text) for source, text in other if source in own}
            if any(self.states[source].added(own[source], position) for source, position in ahead.items()):
                yield {**own, **ahead}

    def _judged(self, name: str, view: ViewState, named: Mapping[str, Position]) -> _Wrong | None:
        try:
            states = self.loadable(view, named)
        except LookupError as error:
            return _Wrong("correctness", f"view {name}: {error}")
        for table, state in states.items():
            row = self.states[table[0]].tables[state.oid].impossible(cast(Key, state.key))
            if row is not None:
                what = (
                    f"view {name} stands at {table[0]} {short(view.positions[table[0]])}, a state that the source never"
                    f" had: {'.'.join(table)} would have the row {row} less than zero times"
                )
                touching = [one for one in self._table(table[0], state.oid) if row in one.effects.get(state.oid, {})]
                return _Wrong("strong", what, _told(touching[-4:]))
        key = (view.definition, tuple((name, state.oid, state.shape, state.key) for name, state in states.items()))
        try:
            if key not in self._answers:
                self._answers[key] = digest(self.bench.evaluate(view.definition, states))
        except NotEvaluated as error:
            return _Wrong(
                "correctness", f"view {name} is {view.state}, and PostgreSQL cannot evaluate it there: {error}"
            )
        if self._answers[key] == view.rows:
            return None
        expected = self.bench.evaluate(view.definition, states)
        return _Wrong(
            "correctness", f"view {name}: {_difference(self.history.bags[view.rows], expected)}", expected=expected
        )

    def loadable(self, view: ViewState, named: Mapping[str, Position] | None = None) -> dict[Name, State]:
        """The tables that the view reads, at its positions. The rows are good until the next call."""
        found = {}
        for name in names_of(view.definition):
            source, schema, table = name
            if source not in view.positions:
                raise LookupError(f"it reads {'.'.join(name)} and has no position of {source}")
            position = self._position(view.positions[source])
            known = self.states[source].catalog((named or {}).get(source, position)).get((schema, table))
            if known is None:
                raise LookupError(
                    f"it reads {'.'.join(name)}, and {source} had no such table at {short(view.positions[source])}"
                )
            oid, called = known
            history = self.states[source].tables[oid]
            key = history.key(position)
            shape = history.shape(key)
            if shape is None:
                raise LookupError(
                    f"it reads {'.'.join(name)}, which was not there yet at {source} {short(view.positions[source])}"
                )
            found[name] = State(oid, shape.called_like(called), key, history.rows(key))
        return found

    def _promise(self, commit: Commit, name: str, earlier: ViewState | None, view: ViewState) -> Iterator[Violation]:
        """The rows before and after a rewriting, where nothing but what was dropped has moved between them."""
        asked = self.history.promises.get(name)
        if asked is None or earlier is None or view.state != MAINTAINED or earlier.definition == view.definition:
            return
        for source, text in view.positions.items():
            old = earlier.positions.get(source, text)
            for one in self.states[source].added(self._position(old), self._position(text)):
                if not one.shapes and {(source, oid) for oid in one.tables} & self._tables(view):
                    return
        rows, before = set(self.history.bags[view.rows]), set(self.history.bags[earlier.rows])
        kept = {"equivalent": rows == before, "superset": rows >= before, "subset": rows <= before}[asked]
        if not kept:
            change = _difference(self.history.bags[view.rows], self.history.bags[earlier.rows])
            what = f"view {name} must stay {asked}, and was rewritten to {view.definition}: {change}"
            yield from self._violation("evolution", what, commit, name)

    def _keys(self, commit: Commit, name: str, earlier: ViewState | None, view: ViewState) -> Iterator[Violation]:
        """A unique index is a claim about every row that could come: the tables must promise it where the view is."""
        if name not in self.history.keyed or not view.unique_on:
            return
        if earlier is not None and _claim(earlier) == _claim(view):
            return
        lacking: list[str] = []
        for named in self._namings(commit, view):
            try:
                states = self.loadable(view, named)
            except LookupError:
                continue  # `_correct` says so
            without = [".".join(table) for table, state in states.items() if not state.shape.keys]
            if not without:
                return
            lacking = lacking or without
        if lacking:
            at = ", ".join(f"{source} {short(text)}" for source, text in view.positions.items())
            what = f"view {name} has {'; '.join(view.unique_on)}, and at {at} there is no key of {', '.join(lacking)}"
            yield from self._violation("keys", what, commit, name)

    def _undecided(self, commit: Commit, name: str, earlier: ViewState | None, view: ViewState) -> Iterator[Violation]:
        """A held message is kept from the views that read its rows; one that waits for approval, from those that it
        would change. A view may take others of its source past it."""
        if earlier is None or view.state != MAINTAINED or earlier.state != MAINTAINED:
            return
        for source, xid in commit.waiting:
            at, before = view.positions.get(source), earlier.positions.get(source)
            if at is None or before is None or not self._position(at).includes(xid):
                continue
            if self._position(before).includes(xid):
                continue
            taken = self.states[source].transaction(xid)
            if taken is None:
                continue
            rows = {(source, oid) for oid in taken.effects} if not taken.schema else set()
            if (source, xid) in commit.held and rows & self._tables(view):
                what = f"view {name} takes {source} {xid}, which an operator holds"
                yield from self._violation("waiting", what, commit, name, _told([taken]))
            elif selected_by(earlier.definition) != selected_by(view.definition):
                what = f"view {name} takes {source} {xid}, which waits, and becomes {view.definition}"
                yield from self._violation("waiting", what, commit, name, _told([taken]))

    # --- all views of a commit

    def _agreement(self, before: Commit | None, commit: Commit, apart: set[str]) -> Iterator[Violation]:
        """Views that are maintained, and have once agreed, agree.

        A view goes apart with a reason: it is built, it has lost columns and its table is rewritten before it moves
        again, it lacks a message that waits for an operator, or a source of its is away. It is back once it agrees.
        """
        away = set(commit.unreachable)
        waiting = self._may_wait(commit) if commit.waiting else set()
        for name, view in commit.views.items():
            earlier = before.views.get(name) if before is not None else None
            built = earlier is None or earlier.state != MAINTAINED or set(earlier.positions) != set(view.positions)
            built = built or (commit.unit == "build" and earlier is not None and not _same(earlier, view))
            if earlier is not None and len(selected_by(view.definition)) < len(selected_by(earlier.definition)):
                self._rewritten.add(name)
            elif earlier is not None and earlier.positions != view.positions:
                self._rewritten.discard(name)
            reason = built or name in self._rewritten or name in waiting or bool(away & set(view.positions))
            if view.state != MAINTAINED or reason:
                apart.add(name)
        apart.intersection_update(commit.views)
        together = sorted(commit.views.keys() - apart)
        for place, one in enumerate(together):
            for other in together[place + 1 :]:
                found = self._disagreement(commit.views[one], commit.views[other])
                if found is not None:
                    source, transaction = found
                    first, second = (short(commit.views[name].positions[source]) for name in (one, other))
                    what = f"views {one} and {other} stand at different states of {source}: {first} and {second}"
                    yield from self._violation("strong", what, commit, one, _told([transaction]))
        live = [name for name, view in commit.views.items() if view.state == MAINTAINED]
        for name in sorted(apart.intersection(live) - self._rewritten):
            others = [other for other in live if other not in apart]
            if all(self._disagreement(commit.views[name], commit.views[other]) is None for other in others):
                apart.discard(name)

    def _may_wait(self, commit: Commit) -> set[str]:
        """The views that have a reason to wait for an operator: they read what a message changes that waits; or one
        that they read as well has such a reason, and a change of that table's schema has yet to come to them. Columns
        can be known to one view and not to the other, tables cannot."""
        read = {name: self._tables_named(commit, view) for name, view in commit.views.items()}
        found = set()
        for source, xid in commit.waiting:
            message = self.states[source].transaction(xid)
            changed = {(source, oid) for oid in message.tables} if message is not None else set()
            for name, view in commit.views.items():
                lacks = source in view.positions and not self._position(view.positions[source]).includes(xid)
                if lacks and (message is None or changed & read[name]):
                    found.add(name)
        grown = True
        while grown:
            shared = {table for name in found for table in read[name]}
            more = {
                name
                for name, view in commit.views.items()
                if name not in found and self._lacks_schema(view, shared & read[name])
            }
            found |= more
            grown = bool(more)
        return found

    def _lacks_schema(self, view: ViewState, tables: set[tuple[str, int]]) -> bool:
        """Whether a schema change of one of these tables has yet to come to the view."""
        for source, oid in tables:
            position = self._position(view.positions[source])
            if any(one.schema and not position.includes(one.xid) for one in self._table(source, oid)):
                return True
        return False

    def _tables_named(self, commit: Commit, view: ViewState) -> set[tuple[str, int]]:
        """The tables that the view's text can mean, where it is or where others are."""
        found = set()
        for named in self._namings(commit, view):
            for source, schema, table in names_of(view.definition):
                catalog = self.states[source].catalog(named[source]) if source in named else {}
                if (schema, table) in catalog:
                    found.add((source, catalog[schema, table][0]))
        return found

    def _disagreement(self, one: ViewState, other: ViewState) -> tuple[str, Transaction] | None:
        for source in one.positions.keys() & other.positions.keys():
            if one.positions[source] == other.positions[source]:
                continue
            first, second = self._position(one.positions[source]), self._position(other.positions[source])
            states = self.states[source]
            for transaction in (*states.added(first, second), *states.added(second, first)):
                tables = {(source, oid) for oid in transaction.tables}
                if tables & (self._tables(one) | self._tables(other)):
                    return source, transaction
        return None

    def _one_at_a_time(self, before: Commit, commit: Commit, apart: set[str]) -> Iterator[Violation]:
        """`complete`: one source transaction that concerns a view is one commit. Schema changes may be merged, also one
        that only a view has asked for which the same commit leaves behind."""
        added: dict[tuple[str, int], Transaction] = {}
        merged = False
        read = {table for one in (before, commit) for view in one.views.values() for table in self._tables(view)}
        for name, view in commit.views.items():
            earlier = before.views.get(name)
            if earlier is None or name in apart or earlier.state != MAINTAINED:
                continue
            for source, text in view.positions.items():
                old = earlier.positions.get(source)
                if old is None or old == text:
                    continue
                tables = self._tables(view) | self._tables(earlier)
                for one in self.states[source].added(self._position(old), self._position(text)):
                    touched = {(source, oid) for oid in one.tables}
                    merged = merged or (one.schema and bool(touched & read))
                    if touched & tables:
                        added[source, one.xid] = one
        if len(added) > 1 and not merged:
            what = f"the commit takes {len(added)} transactions at once: {_numbers(added.values())}"
            yield from self._violation("complete", what, commit, None, _told(list(added.values())[:5]))

    def _tables(self, view: ViewState) -> set[tuple[str, int]]:
        """The tables that the view reads where it stands."""
        key = (view.definition, tuple(sorted(view.positions.items())))
        if key not in self._read:
            found = set()
            for source, schema, table in names_of(view.definition):
                if source in view.positions:
                    catalog = self.states[source].catalog(self._position(view.positions[source]))
                    if (schema, table) in catalog:
                        found.add((source, catalog[schema, table][0]))
            self._read[key] = found
        return self._read[key]

    # --- readers

    def _readers(self) -> Iterator[Violation]:
        places: dict[str, int] = {}
        for read in self.history.reads:
            place = places.get(read.reader, 0)
            for statement in self._units(read):
                if isinstance(statement, str):
                    yield from self._violation("readers", f"reader {read.reader}: {statement}")
                    continue
                found = self._seen(statement, place)
                if found is None:
                    yield from self._unseen(read, statement, place)
                else:
                    place = found
            places[read.reader] = place

    def _units(self, read: Read) -> Iterator[dict[str, str] | str]:
        """What must be of one commit: a statement, or all statements of a transaction with one snapshot."""
        if read.isolation.upper() in ("READ COMMITTED", "READ UNCOMMITTED"):
            yield from read.statements
            return
        together: dict[str, str] = {}
        for number, statement in enumerate(read.statements, 1):
            for view, rows in statement.items():
                if together.setdefault(view, rows) != rows:
                    bags = self.history.bags
                    change = _difference(bags[rows], bags[together[view]])
                    yield f"{read.isolation}, statement {number} sees view {view} changed: {change}"
                    return
        yield together

    def _seen(self, statement: Mapping[str, str], start: int) -> int | None:
        for place in range(start, len(self.commits)):
            views = self.commits[place].views
            if all(name in views and views[name].rows == rows for name, rows in statement.items()):
                return place
        return None

    def _unseen(self, read: Read, statement: Mapping[str, str], place: int) -> Iterator[Violation]:
        earlier = self._seen(statement, 0)
        if earlier is not None:
            what = (
                f"reader {read.reader} went back: it has seen commit {self.commits[place].number} and now sees commit"
                f" {self.commits[earlier].number}"
            )
            yield from self._violation("readers", what, self.commits[earlier])
            return
        each = {
            name: [commit.number for commit in self.commits if name in commit.views and commit.views[name].rows == rows]
            for name, rows in statement.items()
        }
        lines = [
            f"  {name}: {_some(numbers) if numbers else 'of no commit: ' + _bag(self.history.bags[statement[name]])}"
            for name, numbers in each.items()
        ]
        what = f"reader {read.reader} ({read.isolation}) saw views of different commits in one state"
        yield from self._violation("readers", what, history="\n".join(["each view as in commits", *lines]))

    # --- the end

    def _at_rest(self) -> Iterator[Violation]:
        rest = self.history.rest
        if rest is None or not self.commits:
            return
        last = self.commits[-1]
        for name, view in last.views.items():
            if view.state in ("building", "resync"):
                yield from self._violation("nothing lost", f"view {name} is still {view.state}", last, name)
            if view.state != MAINTAINED:
                continue
            for source, text in view.positions.items():
                position = self._position(text)
                missing = [
                    one
                    for one in self.states[source].outside(position)
                    if {(source, oid) for oid in one.tables} & self._tables(view)
                ]
                if missing:
                    what = f"view {name} stands at {source} {short(text)}, without {_numbers(missing)}"
                    yield from self._violation("nothing lost", what, last, name, _told(missing[:5]))
        if any(view.state == "held" for view in last.views.values()):
            return  # what it waits for stays
        if rest.queue:
            yield from self._violation("nothing lost", f"{rest.queue} message(s) are still in the queue", last)
        for source, entries in rest.logs.items():
            if entries:
                yield from self._violation("nothing lost", f"{entries} entries are still in the log of {source}", last)

    # --- words

    def _position(self, text: str) -> Position:
        if text not in self._positions:
            self._positions[text] = Position.parse(text)
        return self._positions[text]

    def _table(self, source: str, oid: int) -> list[Transaction]:
        return self.states[source].tables[oid].transactions

    def _violation(
        self, rule: str, text: str, commit: Commit | None = None, view: str | None = None, history: str = ""
    ) -> Iterator[Violation]:
        """One of a rule and view is enough."""
        if (rule, view) not in self._told:
            self._told.add((rule, view))
            number = commit.number if commit is not None else None
            yield Violation(rule, text, number, view, history, self.replay)


def _same(one: ViewState, other: ViewState) -> bool:
    return (one.rows, one.version, one.positions) == (other.rows, other.version, other.positions)


def _claim(view: ViewState) -> tuple[object, ...]:
    """What the uniqueness of its rows is judged by."""
    return (view.unique_on, view.positions, view.definition)


def _difference(found: Mapping[str, int], expected: Mapping[str, int]) -> str:
    extra, missing = Counter(found) - Counter(expected), Counter(expected) - Counter(found)
    parts = [f"{extra.total()} row(s) too many: {_bag(extra)}"] if extra else []
    parts += [f"{missing.total()} row(s) missing: {_bag(missing)}"] if missing else []
    return "; ".join(parts)


def _bag(rows: Mapping[str, int], limit: int = 5) -> str:
    shown = [f"{row} ×{count}" if count > 1 else row for row, count in sorted(rows.items())[:limit]]
    return ", ".join(shown + (["…"] if len(rows) > limit else [])) or "no rows"


def _numbers(transactions: object) -> str:
    found = [f"{one.source} {one.xid}" for one in transactions]  # type: ignore[attr-defined]
    return ", ".join(found[:5]) + (" …" if len(found) > 5 else "")


def _some(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers[:5])) + (" …" if len(numbers) > 5 else "")


def _told(transactions: list[Transaction]) -> str:
    return "\n".join(f"  {one.source} {one.xid}: {'; '.join(one.steps)}" for one in transactions)
