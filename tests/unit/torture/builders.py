"""Histories made by hand: two sources, a join and a count over them, and commits as the test likes them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from tests.torture.history import Commit, History, Read, Rest, Shape, Transaction, ViewState

R, S = 1, 2
SHAPES = {
    R: Shape("public", "r", (("id", "integer"), ("t", "text")), (1, 2)),
    S: Shape("public", "s", (("id", "integer"), ("n", "integer")), (1, 2)),
}
JOIN = "SELECT r.id, r.t, s.n FROM `one`.`public`.`r` AS r JOIN `two`.`s` AS s ON r.id = s.id"
COUNT = "SELECT r.t, count(*) AS n FROM one.r AS r GROUP BY r.t"


class Hand:
    """`did(101, "+(1,a)")`, `commit(join=(at, rows), count=(at, rows))`; positions are the next xid of each source."""

    def __init__(self, mode: str = "strong") -> None:
        self.history = History(7, "the command", mode)
        self.history.add(Transaction("one", 0, 0, {R: {"(1,a)": 1, "(2,b)": 1}}, {R: SHAPES[R]}))
        self.history.add(Transaction("two", 0, 0, {S: {"(1,10)": 1, "(2,20)": 1}}, {S: SHAPES[S]}))
        self.clock = 0.0
        self.numbers = 0

    def did(self, xid: int, *rows: str, table: int = R, schema: Shape | None = None) -> Transaction:
        """A transaction: `+(1,a)` inserts the row, `-(1,a)` deletes it. One ends before the next begins."""
        effects: dict[str, int] = {}
        for row in rows:
            effects[row[1:]] = effects.get(row[1:], 0) + (1 if row[0] == "+" else -1)
        source = "one" if table == R else "two"
        done = Transaction(source, xid, self.history.next_order(), {table: effects}, steps=(f"did {' '.join(rows)}",))
        if schema is not None:
            done.shapes, done.schema = {table: schema}, True
        done.began, done.ended = self.clock + 1, self.clock + 2
        self.clock += 2
        self.history.add(done)
        return done

    def view(
        self,
        rows: Mapping[str, int] | list[str],
        one: str | int = 100,
        two: str | int | None = None,
        definition: str = COUNT,
        state: str = "live",
        version: int = 1,
        unique_on: tuple[str, ...] = (),
    ) -> ViewState:
        positions = {"one": _position(one)} | ({"two": _position(two)} if two is not None else {})
        return ViewState(state, version, definition, positions, self.history.keep(Counter(rows)), None, unique_on)

    def commit(
        self,
        backend: int = 1,
        holder: int = 1,
        unreachable: tuple[str, ...] = (),
        waiting: tuple[tuple[str, int], ...] = (),
        held: tuple[tuple[str, int], ...] = (),
        **views: ViewState,
    ) -> Commit:
        self.numbers += 1
        done = Commit(self.numbers, views, backend=backend, holder=holder, unreachable=unreachable, waiting=waiting)
        done.held = held
        self.history.add(done)
        return done

    def read(
        self, *statements: Mapping[str, list[str]], reader: str = "Ann", isolation: str = "READ COMMITTED"
    ) -> None:
        seen = [{view: self.history.keep(rows) for view, rows in statement.items()} for statement in statements]
        self.history.add(Read(reader, isolation, seen))

    def rest(self, queue: int = 0, **logs: int) -> None:
        self.history.rest = Rest(queue, logs)


def _position(text: str | int) -> str:
    return text if isinstance(text, str) else f"{text}:{text}:"
