"""A stage for scenarios: a recorded town that is driven step by step, in this process."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import psycopg2

from dyda import faults
from dyda.engine import Engine
from dyda.maintenance.cycle import Outcome
from dyda.maintenance.loop import Maintainer
from tests.torture.history import History, Read
from tests.torture.readers import look
from tests.torture.recorded_town import Recorded
from tests.torture.recording import Change, Data, Step, connect
from tests.town import Town

__all__ = ["Killed", "Stage"]


class Killed(BaseException):
    """The process ends here, as far as the scenario is concerned."""


class Stage:
    """`source`, `view`, `begin`, then `do` and `settle` in any order; `end` says whether everything must be done."""

    def __init__(self, name: str, folder: Path, database: Callable[[str], str], engine: Engine) -> None:
        self.name = name
        self.folder = folder
        self.database = database
        self.engine = engine
        self.history = History(None, f"python -m tests.torture.scenarios {name}")
        self.at_rest = True
        """Whether nothing may be left at the end."""
        self._settings = ""
        self._made: Recorded | None = None

    def settings(self, text: str, mode: str = "strong") -> None:
        """`[maintenance]` of the project; before anything else."""
        self.history.mode = mode
        self._settings = f'consistency = "{mode}"\n{text}'

    @property
    def recorded(self) -> Recorded:
        if self._made is None:
            self._made = Recorded(Town(self.folder, self.database, self.engine, self._settings), self.history)
        return self._made

    @property
    def town(self) -> Town:
        return self.recorded.town

    def source(self, name: str, *statements: str, url: str | None = None) -> None:
        self.town.source(name, *statements, url=url)

    def view(self, name: str, text: str) -> None:
        self.town.view(name, text)

    def begin(self) -> None:
        self.recorded.begin()

    def do(self, source: str, *steps: Step | str, isolation: str = "READ COMMITTED") -> int:
        """One transaction that must commit; a text is a data step."""
        xid = self.recorded.do(source, *(Data(s) if isinstance(s, str) else s for s in steps), isolation=isolation)
        assert xid is not None, f"{source}: {steps} was refused"
        return xid

    def change(self, source: str, statement: str, *tables: str) -> int:
        """A schema change in a transaction of its own."""
        return self.do(source, Change(statement, tables))

    # --- maintenance

    @contextmanager
    def maintainer(self) -> Iterator[Maintainer]:
        with self.town.maintainer() as maintainer:
            yield maintainer

    @contextmanager
    def lanes(self) -> Iterator[Maintainer]:
        """Maintenance that builds beside its units, as a daemon does."""
        with self.town.opened() as opened, opened.warehouse.lock() as writer:
            maintainer = Maintainer(opened, writer, stopping=lambda: False)
            with closing(maintainer):
                yield maintainer

    def settle(self, maintainer: Maintainer | None = None, seconds: float = 40) -> None:
        """Cycles until nothing is left to do; what is still left then, the history shows."""
        with ExitStack() as stack:
            writer = maintainer or stack.enter_context(self.maintainer())
            deadline = time.monotonic() + seconds
            for _ in range(40):
                outcome = writer.cycle()
                if outcome is Outcome.IDLE or time.monotonic() > deadline:
                    return
                if outcome is Outcome.BLOCKED:
                    time.sleep(0.1)  # a source that is left alone for a while

    def killed_at(self, point: str, passing: int = 1) -> None:
        """Maintenance until `point` is passed for the given time; there the process ends."""
        with self.at(point, _kill, passing), self.maintainer() as maintainer:
            try:
                self.settle(maintainer)
            except Killed:
                return
        raise AssertionError(f"{point} was not passed {passing} times")

    @contextmanager
    def at(self, point: str, action: Callable[[], object], passing: int = 1) -> Iterator[None]:
        """Do something when `point` is passed for the given time, and only then."""
        passed = 0

        def hook() -> None:
            nonlocal passed
            passed += 1
            if passed == passing:
                action()

        with faults.on(point, hook):
            yield

    @contextmanager
    def reading(self, name: str, isolation: str = "REPEATABLE READ") -> Iterator[Callable[..., None]]:
        """A reader's transaction: each call is a statement over these views."""
        read = Read(name, isolation)
        connection = connect(self.town.warehouse)
        try:
            with connection.cursor() as cursor:
                cursor.execute(f"SET TRANSACTION ISOLATION LEVEL {isolation}")

                def statement(*views: str) -> None:
                    try:
                        seen = look(cursor, views)
                    except psycopg2.errors.SerializationFailure:
                        read.error = "40001"
                        return
                    read.statements.append({view: self.history.keep(rows) for view, rows in seen.items()})

                yield statement
        finally:
            connection.close()
            self.history.add(read)

    def end(self, *, at_rest: bool = True) -> None:
        self.recorded.end(at_rest=at_rest)

    def close(self) -> None:
        if self._made is not None:
            self._made.close()
            self._made.town.close()


def _kill() -> None:
    raise Killed
