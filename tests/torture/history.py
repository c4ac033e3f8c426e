"""A history: what the sources committed, what the warehouse committed, and what readers saw. Pure data.

    source transactions   effects as signed bags of row texts, new shapes of tables
    warehouse commits     per view its state, version, definition, positions and rows
    reads                 per statement the rows of each view

The state of a source at a position is the sum of the effects of the transactions that the position includes, in no
particular order: conflicts between transactions make any wrong set of them show as a row that is there less than zero
times. `checking.check` judges a history; JSON keeps one.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["Commit", "History", "Position", "Read", "Rest", "Shape", "Transaction", "ViewState", "digest"]


def digest(rows: Mapping[str, int]) -> str:
    """A bag's name: equal bags have equal ones. `recording.DIGEST` computes the same in SQL."""
    total = sum(int(hashlib.md5(row.encode()).hexdigest()[:15], 16) * count for row, count in rows.items())
    return f"{sum(rows.values())}:{total}"


@dataclass(frozen=True)
class Position:
    """A pg_snapshot: which transactions of a source are in a state. The checker's own, not the product's."""

    xmin: int
    xmax: int
    in_progress: frozenset[int]

    @classmethod
    def parse(cls, text: str) -> Position:
        xmin, xmax, listed = text.split(":")
        return cls(int(xmin), int(xmax), frozenset(int(xid) for xid in listed.split(",") if xid))

    def includes(self, xid: int) -> bool:
        return xid < self.xmin or (xid < self.xmax and xid not in self.in_progress)


@dataclass(frozen=True)
class Shape:
    """What a table is called and what its columns are: (name, type as PostgreSQL prints it), and their attnums.

    `keys` are the constraints that make rows unique, by attnums: primary keys, and UNIQUE over columns without NULLs.
    """

    schema: str
    name: str
    columns: tuple[tuple[str, str], ...]
    numbers: tuple[int, ...] = ()
    keys: tuple[tuple[int, ...], ...] = ()

    def called_like(self, other: Shape) -> Shape:
        """The same columns under the names that `other` has for them: the table as it is called elsewhere."""
        names = dict(zip(other.numbers, (name for name, _ in other.columns), strict=False))
        columns = tuple(
            (names.get(number, name), type_) for number, (name, type_) in zip(self.numbers, self.columns, strict=False)
        )
        return Shape(other.schema, other.name, columns or self.columns, self.numbers, self.keys)


@dataclass
class Transaction:
    """One committed transaction of a source. xid 0: what was there when recording began.

    `effects` by the table's oid: row text → how many times more (or less) it is there. `shapes` by oid: the table after
    the transaction where DDL changed it; None: dropped. `order` was taken just before COMMIT, so it agrees with the
    order of any two transactions that conflict. `began` is before the last statement that wrote something, `ended`
    after COMMIT's answer: what ended before another began precedes it. `schema`: DDL or TRUNCATE, which may be merged
    with its neighbours.
    """

    source: str
    xid: int
    order: int
    effects: dict[int, dict[str, int]] = field(default_factory=dict)
    shapes: dict[int, Shape | None] = field(default_factory=dict)
    steps: tuple[str, ...] = ()
    schema: bool = False
    began: float = -math.inf
    ended: float = math.inf

    @property
    def tables(self) -> set[int]:
        return {*self.effects, *self.shapes}


@dataclass(frozen=True)
class ViewState:
    """A view in one commit. `rows` is the digest of its bag; `History.bags` has the bag. `cause`: why it is no longer
    maintained, as the catalog keeps it. `unique_on`: the unique indexes of the table that readers of it read."""

    state: str
    version: int
    definition: str
    positions: Mapping[str, str]
    rows: str
    cause: Mapping[str, Any] | None = None
    unique_on: tuple[str, ...] = ()

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> ViewState:
        """As JSON has it."""
        return cls(**{**document, "unique_on": tuple(document.get("unique_on", ()))})


@dataclass
class Commit:
    """One commit of the warehouse, numbered in commit order. `backend` wrote it, `holder` had the project's lock.

    `unreachable` are the sources that the catalog calls so in this state; `unit` is the kind of unit: data, build, …
    `waiting` are the transactions (source, xid) that wait for an operator; `held` are those of them that one holds.
    """

    number: int
    views: dict[str, ViewState]
    at: str = ""
    backend: int = 0
    holder: int = 0
    unreachable: tuple[str, ...] = ()
    unit: str = ""
    waiting: tuple[tuple[str, int], ...] = ()
    held: tuple[tuple[str, int], ...] = ()


@dataclass
class Read:
    """What one transaction of a reader saw: per statement the digest of each view; `error` is its SQLSTATE."""

    reader: str
    isolation: str
    statements: list[dict[str, str]] = field(default_factory=list)
    error: str | None = None


@dataclass
class Rest:
    """What is left when all is said to be done: messages in the queue, entries in each source's log."""

    queue: int
    logs: dict[str, int]


class History:
    """Everything that was recorded. Threads may append; `seed` and `command` say how to see it again."""

    def __init__(self, seed: int | None = None, command: str = "", mode: str = "strong") -> None:
        self.seed = seed
        self.command = command
        self.mode = mode
        self.transactions: list[Transaction] = []
        self.commits: list[Commit] = []
        self.reads: list[Read] = []
        self.rest: Rest | None = None
        self.bags: dict[str, dict[str, int]] = {}
        self.promises: dict[str, str] = {}
        """By view what its owner asks of rewritings: equivalent, superset or subset."""
        self.keyed: set[str] = set()
        """Views whose rows are unique only as long as every table that they read has a key."""
        self.carried = False
        """Whether the first commit is the last one of an earlier history, which was judged with that."""
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()

    def next_order(self) -> int:
        with self._lock:
            return next(self._numbers)

    def add(self, entry: Transaction | Commit | Read) -> None:
        with self._lock:
            match entry:
                case Transaction():
                    self.transactions.append(entry)
                case Commit():
                    self.commits.append(entry)
                case Read():
                    self.reads.append(entry)

    def keep(self, rows: Iterable[str] | Mapping[str, int]) -> str:
        """Remember a bag; its digest."""
        bag = dict(rows) if isinstance(rows, Mapping) else dict(Counter(rows))
        name = digest(bag)
        with self._lock:
            self.bags.setdefault(name, bag)
        return name

    def count(self) -> dict[str, int]:
        real = [one for one in self.transactions if one.xid]
        return {
            "transactions": len(real),
            "schema changes": sum(one.schema for one in real),
            "commits": len(self.commits),
            "reads": sum(len(one.statements) for one in self.reads),
        }

    # --- JSON

    def save(self, path: Path) -> None:
        document = {
            "seed": self.seed,
            "command": self.command,
            "mode": self.mode,
            "transactions": [asdict(one) for one in self.transactions],
            "commits": [asdict(one) for one in self.commits],
            "reads": [asdict(one) for one in self.reads],
            "rest": None if self.rest is None else asdict(self.rest),
            "bags": self.bags,
            "promises": self.promises,
            "keyed": sorted(self.keyed),
            "carried": self.carried,
        }
        path.write_text(json.dumps(document, ensure_ascii=False))

    @classmethod
    def load(cls, path: Path) -> History:
        document = json.loads(path.read_text())
        history = cls(document["seed"], document["command"], document["mode"])
        history.transactions = [_transaction(one) for one in document["transactions"]]
        history.commits = [_commit(one) for one in document["commits"]]
        history.reads = [Read(**one) for one in document["reads"]]
        history.rest = Rest(**document["rest"]) if document["rest"] else None
        history.bags = document["bags"]
        history.promises = document.get("promises", {})
        history.keyed = set(document.get("keyed", ()))
        history.carried = document.get("carried", False)
        return history


def _transaction(one: dict[str, Any]) -> Transaction:
    effects = {int(oid): rows for oid, rows in one.pop("effects").items()}
    shapes = {
        int(oid): shape
        and Shape(
            shape["schema"],
            shape["name"],
            tuple(map(tuple, shape["columns"])),
            tuple(shape.get("numbers") or ()),
            tuple(map(tuple, shape.get("keys") or ())),
        )
        for oid, shape in one.pop("shapes").items()
    }
    return Transaction(**{**one, "effects": effects, "shapes": shapes, "steps": tuple(one["steps"])})


def _commit(one: dict[str, Any]) -> Commit:
    views = {name: ViewState.of(view) for name, view in one.pop("views").items()}
    waiting, held = (tuple((source, xid) for source, xid in one.get(kind, ())) for kind in ("waiting", "held"))
    unreachable = tuple(one["unreachable"])
    return Commit(**{**one, "views": views, "unreachable": unreachable, "waiting": waiting, "held": held})
