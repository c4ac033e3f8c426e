"""A town whose history is recorded: the sources' transactions, the warehouse's commits, what readers see."""

from __future__ import annotations

from collections.abc import Callable

from tests.torture.checking import Violation, check
from tests.torture.history import History
from tests.torture.readers import Reader
from tests.torture.recording import Observer, Step, Writer, begin, rest, settle
from tests.town import Town

__all__ = ["Recorded"]


class Recorded:
    """Make the town's sources and views, `begin`, do things with `do` and the writers, `end`, then `violations`."""

    def __init__(self, town: Town, history: History) -> None:
        self.town = town
        self.history = history
        self.observer = Observer(history, town.warehouse)
        self.writers: dict[str, list[Writer]] = {}
        self.readers: list[Reader] = []

    def begin(self, apply: Callable[[], object] | None = None) -> None:
        """The history begins: what the sources have, the views built on it. Nobody writes meanwhile."""
        for source, url in self.town.sources.items():
            begin(self.history, source, url)
        (apply or self.town.apply)()
        self.observer.watch()

    def writer(self, source: str) -> Writer:
        """One more session at a source."""
        made = Writer(self.history, source, self.town.sources[source])
        self.writers.setdefault(source, []).append(made)
        return made

    def do(self, source: str, *steps: Step, isolation: str = "READ COMMITTED") -> int | None:
        """One transaction of the source's first writer."""
        writer = self.writers[source][0] if source in self.writers else self.writer(source)
        return writer.transaction(steps, isolation=isolation)

    def reader(self, name: str, isolation: str = "READ COMMITTED", statements: int = 1) -> Reader:
        """A reader of all views of the town, started."""
        views = sorted(path.stem for path in (self.town.folder / "views").glob("*.sql"))
        made = Reader(
            self.history, name, self.town.warehouse, views, isolation, statements, seed=self.history.seed or 0
        )
        self.readers.append(made)
        made.start()
        return made

    def end(self, *, at_rest: bool = True) -> None:
        """Readers stop, what was not answered is settled, commits are taken over. `at_rest`: nothing may be left."""
        for reader in self.readers:
            reader.stop()
        for source, writers in self.writers.items():
            for writer in writers:
                settle(writer, self.town.sources[source])
        self.observer.commits()
        if at_rest:
            rest(self.history, self.town.warehouse, self.town.sources)

    def violations(self) -> list[Violation]:
        return check(self.history, self.town.database("judge"))

    def close(self) -> None:
        for writers in self.writers.values():
            for writer in writers:
                writer.close()
