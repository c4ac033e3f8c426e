"""Recording: writers that know exactly what they did, and an observer inside the warehouse.

Both are independent of the product: effects come from RETURNING and from reading locked tables, never from DyDa's log;
warehouse commits are seen by a deferred trigger, in the very transaction that makes them.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg2
from psycopg2 import sql

from tests.recompute_oracle import PINNED
from tests.torture.history import Commit, History, Rest, Shape, Transaction, ViewState

__all__ = ["DIGEST", "Change", "Data", "Nested", "Observer", "Plain", "Step", "Writer", "begin", "rest", "settle"]

DIGEST = "count(*) || ':' || coalesce(sum(('x' || substr(md5(line), 1, 15))::bit(60)::bigint), 0)"
"""`history.digest` of the rows `line`, in SQL."""

REFUSED = (
    psycopg2.errors.LockNotAvailable,
    psycopg2.errors.DeadlockDetected,
    psycopg2.errors.SerializationFailure,
    psycopg2.errors.QueryCanceled,
    psycopg2.errors.UndefinedColumn,
    psycopg2.errors.UndefinedTable,
    psycopg2.errors.UniqueViolation,
)
"""What may happen to any transaction, also of a program that does not know yet what a column is called by now, or which
keys are taken: it is rolled back, and nothing of it is in the history."""


@contextlib.contextmanager
def lost_is_operational() -> Iterator[None]:
    """A server that dies in the middle of an answer makes psycopg2 raise a bare DatabaseError: here, what it means."""
    try:
        yield
    except psycopg2.DatabaseError as error:
        if type(error) is psycopg2.DatabaseError:
            raise psycopg2.OperationalError(str(error)) from None
        raise


SHAPES = """
SELECT c.oid::bigint, n.nspname, c.relname,
       (SELECT json_agg(json_build_array(a.attname, format_type(a.atttypid, a.atttypmod), a.attnum) ORDER BY a.attnum)
        FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped),
       (SELECT json_agg(k.conkey ORDER BY k.conkey) FROM pg_constraint k
        WHERE k.conrelid = c.oid AND k.contype IN ('p', 'u') AND NOT k.condeferrable
          AND NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum = ANY (k.conkey)
                          AND NOT a.attnotnull))
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relpersistence = 'p'
  AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast', 'dyda')
"""


@dataclass(frozen=True)
class Data:
    """INSERT, UPDATE, DELETE or MERGE without a RETURNING of its own. No triggers of the user's, no cascades."""

    statement: str


@dataclass(frozen=True)
class Change:
    """DDL or TRUNCATE. `tables` are those whose rows or columns it may change, as they are called before it."""

    statement: str
    tables: tuple[str, ...] = ()


@dataclass(frozen=True)
class Nested:
    """A subtransaction, kept or rolled back."""

    steps: tuple[Data | Change | Plain | Nested, ...]
    keep: bool = True


@dataclass(frozen=True)
class Plain:
    """Anything that changes neither rows nor shapes: SET, SELECT … FOR UPDATE."""

    statement: str


Step = Data | Change | Nested | Plain


def connect(url: str) -> Any:
    connection = psycopg2.connect(url)
    with connection.cursor() as cursor:
        cursor.execute(PINNED)
    connection.commit()
    return connection


def shapes(cursor: Any) -> dict[int, Shape]:
    """Every table of the users', by oid. Partitions count as their root."""
    cursor.execute(SHAPES)
    return {
        oid: Shape(
            schema,
            name,
            tuple((c, type_) for c, type_, _ in columns or ()),
            tuple(n for *_, n in columns or ()),
            tuple(map(tuple, keys or ())),
        )
        for oid, schema, name, columns, keys in cursor.fetchall()
    }


def rows_of(cursor: Any, shape: Shape) -> Counter[str]:
    table = sql.Identifier(shape.schema, shape.name)
    cursor.execute(sql.SQL('SELECT "#row"::text, count(*) FROM {} AS "#row" GROUP BY 1').format(table))
    return Counter(dict(cursor.fetchall()))


def begin(history: History, source: str, url: str) -> None:
    """What a source has now is what its history begins with. Nobody may be writing there."""
    connection = connect(url)
    try:
        with connection, connection.cursor() as cursor:
            there = shapes(cursor)
            effects = {oid: dict(rows_of(cursor, shape)) for oid, shape in there.items()}
        history.add(Transaction(source, 0, 0, effects, dict(there), ("at the beginning",)))
    finally:
        connection.close()


@dataclass
class _Under:
    """A transaction under way."""

    effects: dict[int, Counter[str]]
    shapes: dict[int, Shape | None]
    words: list[str]
    schema: bool = False
    began: float = -math.inf

    def copy(self) -> _Under:
        effects = {oid: Counter(bag) for oid, bag in self.effects.items()}
        return _Under(effects, dict(self.shapes), list(self.words), self.schema, self.began)

    def add(self, oid: int, rows: Mapping[str, int], sign: int = 1) -> None:
        bag = self.effects.setdefault(oid, Counter())
        for row, count in rows.items():
            bag[row] += sign * count


class Writer:
    """A session at a source. One thread uses it; several writers of one source conflict as they like."""

    def __init__(self, history: History, source: str, url: str, lock_timeout: str = "3s") -> None:
        self.history = history
        self.source = source
        self.url = url
        self.lock_timeout = lock_timeout
        self.refused = 0
        """Transactions that were rolled back: a lock timeout, a deadlock, a serialization failure, a lost session."""
        self.unsettled: list[Transaction] = []
        """Transactions whose COMMIT got no answer: `settle` asks what became of them."""
        self._connection: Any = None
        self._asked_to_commit = False

    def transaction(
        self, steps: Sequence[Step], *, isolation: str = "READ COMMITTED", commit: bool = True
    ) -> int | None:
        """Run the steps in one transaction; its id if it has committed, None if it is rolled back or not settled."""
        try:
            with lost_is_operational(), self.open(isolation) as under_way:
                for step in steps:
                    under_way.do(step)
                return under_way.commit() if commit else None
        except REFUSED:
            self.refused += 1
            return None
        except (psycopg2.OperationalError, psycopg2.InterfaceError):
            if not self._asked_to_commit:
                self.refused += 1
            self.close()
            return None

    @contextlib.contextmanager
    def open(self, isolation: str = "READ COMMITTED") -> Iterator[UnderWay]:
        """A transaction that the caller leads step by step; rolled back unless it was committed."""
        if self._connection is None:
            self._connection = connect(self.url)
        self._asked_to_commit = False
        try:
            yield UnderWay(self, self._connection, isolation)
        finally:
            if self._connection is not None:
                with (
                    contextlib.suppress(psycopg2.OperationalError, psycopg2.InterfaceError),
                    lost_is_operational(),
                ):
                    self._connection.rollback()

    def close(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(psycopg2.Error):
                self._connection.close()
            self._connection = None


class UnderWay:
    """One transaction of a writer, step by step."""

    def __init__(self, writer: Writer, connection: Any, isolation: str) -> None:
        self.writer = writer
        self.connection = connection
        self.isolation = isolation
        self._did = _Under({}, {}, [])
        self._savepoints = 0
        with connection.cursor() as cursor:
            cursor.execute(f"SET TRANSACTION ISOLATION LEVEL {isolation}")
            cursor.execute("SELECT set_config('lock_timeout', %s, true)", (writer.lock_timeout,))

    def do(self, step: Step) -> None:
        began = time.monotonic()
        with self.connection.cursor() as cursor:
            match step:
                case Data(statement):
                    if self._data(cursor, statement):
                        self._did.began = began  # a statement that wrote nothing orders nothing
                case Change(statement, tables):
                    self._change(cursor, statement, tables)
                    self._did.began = began
                case Nested(steps, keep):
                    self._nested(cursor, steps, keep)
                case Plain(statement):
                    cursor.execute(statement)
                    self._did.words.append(statement)

    def commit(self) -> int | None:
        with self.connection.cursor() as cursor:
            cursor.execute("SELECT pg_current_xact_id()::text::bigint")
            (xid,) = cursor.fetchone()
        writer, did = self.writer, self._did
        # Rows that were written as they had been are nothing to the extents. Still the table was written, and its
        # readers may wait with the message.
        effects = {oid: {row: n for row, n in bag.items() if n} for oid, bag in did.effects.items()}
        done = Transaction(writer.source, xid, writer.history.next_order(), effects, did.shapes, tuple(did.words))
        done.schema, done.began = did.schema, did.began
        try:
            writer._asked_to_commit = True
            with lost_is_operational():
                self.connection.commit()
        except REFUSED:
            raise
        except (psycopg2.OperationalError, psycopg2.InterfaceError):
            writer.unsettled.append(done)
            raise
        done.ended = time.monotonic()
        writer.history.add(done)
        return int(xid)

    def _data(self, cursor: Any, statement: str) -> bool:
        cursor.execute(
            f"{statement} RETURNING WITH (OLD AS before, NEW AS after)"
            " coalesce(pg_partition_root(tableoid)::oid, tableoid)::bigint, before::text, after::text"
        )
        rows = cursor.fetchall()
        for oid, before, after in rows:
            if before is not None:
                self._did.add(oid, {before: 1}, -1)
            if after is not None:
                self._did.add(oid, {after: 1})
        self._did.words.append(statement)
        return bool(rows)

    def _change(self, cursor: Any, statement: str, tables: Sequence[str]) -> None:
        before = self._lock(cursor, tables)
        known = shapes(cursor)
        cursor.execute(statement)
        there = shapes(cursor)
        for oid, shape in there.items():
            if known.get(oid) != shape:
                self._did.shapes[oid] = shape
        for oid in known.keys() - there.keys():
            self._did.shapes[oid] = None
        for oid, rows in before.items():
            self._did.add(oid, rows, -1)
        for oid in {*before, *(there.keys() - known.keys())} & there.keys():
            self._did.add(oid, rows_of(cursor, there[oid]))
        self._did.words.append(statement)
        self._did.schema = True

    def _lock(self, cursor: Any, tables: Sequence[str]) -> dict[int, Counter[str]]:
        """The rows of the tables, which nobody else can change any more.

        A transaction with an old snapshot of its own does not see all of them: another session looks (rule C4).
        """
        found: dict[int, Counter[str]] = {}
        if not tables:
            return found
        old_snapshot = self.isolation != "READ COMMITTED"
        mode = "EXCLUSIVE" if old_snapshot else "ACCESS EXCLUSIVE"
        cursor.execute(f"LOCK TABLE {', '.join(tables)} IN {mode} MODE")
        with contextlib.closing(connect(self.writer.url)) if old_snapshot else contextlib.nullcontext() as other:
            looking = cursor if other is None else other.cursor()
            for table in tables:
                cursor.execute("SELECT %s::regclass::oid::bigint", (table,))
                (oid,) = cursor.fetchone()
                if old_snapshot and oid in self._did.effects:
                    raise ValueError(f"{table} was written before in this transaction: another session cannot see that")
                looking.execute(f'SELECT "#row"::text, count(*) FROM {table} AS "#row" GROUP BY 1')
                found[oid] = Counter(dict(looking.fetchall()))
        return found

    def _nested(self, cursor: Any, steps: Sequence[Step], keep: bool) -> None:
        before = self._did.copy()
        self._savepoints += 1
        name = f"nested_{self._savepoints}"
        cursor.execute(f"SAVEPOINT {name}")
        self._did.words.append(f"SAVEPOINT {name}")
        for step in steps:
            self.do(step)
        words = list(self._did.words)
        if keep:
            cursor.execute(f"RELEASE SAVEPOINT {name}")
            self._did.words.append(f"RELEASE SAVEPOINT {name}")
        else:
            cursor.execute(f"ROLLBACK TO SAVEPOINT {name}")
            self._did = before
            self._did.words = [*words, f"ROLLBACK TO SAVEPOINT {name}"]


def settle(writer: Writer, url: str) -> None:
    """What became of transactions whose COMMIT got no answer. Nobody may still be working on them."""
    waiting, writer.unsettled = writer.unsettled, []
    if not waiting:
        return
    connection = connect(url)
    connection.autocommit = True
    try:
        with lost_is_operational():
            for transaction in waiting:
                if _outcome(connection, transaction.xid) == "committed":
                    writer.history.add(transaction)  # `ended` stays infinite: nothing is known to come after it
                else:
                    writer.refused += 1
    finally:
        connection.close()


def _outcome(connection: Any, xid: int, seconds: float = 30) -> str:
    deadline = time.monotonic() + seconds
    while True:
        with connection.cursor() as cursor:
            try:
                cursor.execute("SELECT coalesce(pg_xact_status(%s::text::xid8), 'forgotten')", (xid,))
                status = str(cursor.fetchone()[0])
            except psycopg2.errors.InvalidParameterValue:
                return "lost"  # the source does not know the number any more: it crashed and forgot
        if status != "in progress":
            return status
        if time.monotonic() > deadline:
            raise AssertionError(f"transaction {xid} is still in progress after {seconds} s")
        time.sleep(0.02)


class Observer:
    """Sees every commit of the warehouse that moves a view: a deferred trigger copies it into a schema of its own.

    `watch` once the catalog is there (after the first `apply`); `commits` takes over what is new.
    """

    def __init__(self, history: History, url: str, schema: str = "public") -> None:
        self.history = history
        self.url = url
        self.schema = schema
        self._seen = 0
        self._turn = threading.Lock()

    def watch(self) -> None:
        text = Path(__file__).with_name("observer.sql").read_text()
        text = text.replace("{schema}", self.schema).replace("{digest}", DIGEST)
        with self._cursor() as cursor:
            cursor.execute(text)
        self.commits()

    def commits(self) -> list[Commit]:
        """The commits since the last call, in commit order; they are in the history from now on."""
        found = []
        with self._turn:
            with self._cursor() as cursor:
                cursor.execute(
                    "SELECT number, at::text, backend, holder, unreachable, unit, waiting, held, views"
                    " FROM observed.commit WHERE number > %s ORDER BY number",
                    (self._seen,),
                )
                for number, at, backend, holder, unreachable, unit, waiting, held, views in cursor.fetchall():
                    states = {name: ViewState.of(view) for name, view in views.items()}
                    found.append(
                        Commit(
                            number,
                            states,
                            at,
                            backend,
                            holder or 0,
                            tuple(unreachable),
                            unit or "",
                            tuple((source, xid) for source, xid in waiting),
                            tuple((source, xid) for source, xid in held),
                        )
                    )
                wanted = {view.rows for commit in found for view in commit.views.values()} - self.history.bags.keys()
                cursor.execute("SELECT digest, rows FROM observed.bag WHERE digest = ANY(%s)", (list(wanted),))
                for name, rows in cursor.fetchall():
                    if self.history.keep(rows) != name:
                        raise AssertionError(f"the observer and the history name bag {name} differently")
            for commit in found:
                self.history.add(commit)
            if found:
                self._seen = found[-1].number
        return found

    @contextlib.contextmanager
    def _cursor(self) -> Iterator[Any]:
        connection = psycopg2.connect(self.url)
        try:
            with connection, connection.cursor() as cursor:
                yield cursor
        finally:
            connection.close()


def rest(history: History, warehouse: str, sources: Mapping[str, str]) -> Rest:
    """What is left now; call it when the daemon says that nothing is."""
    queue = _count(warehouse, "SELECT count(*) FROM dyda.message")
    logs = {}
    for name, url in sources.items():
        attached = _count(url, "SELECT count(to_regclass('dyda.log'))")
        logs[name] = _count(url, "SELECT count(*) FROM dyda.log") if attached else 0
    history.rest = Rest(queue, logs)
    return history.rest


def _count(url: str, query: str) -> int:
    connection = psycopg2.connect(url)
    try:
        with connection.cursor() as cursor:
            cursor.execute(query)
            return int(cursor.fetchone()[0])
    finally:
        connection.close()
