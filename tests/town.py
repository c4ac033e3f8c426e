"""A town for tests: several source databases, a warehouse and a project folder, driven in process or by the CLI."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg2

from dyda import commands
from dyda.engine import Engine
from dyda.maintenance.cycle import Outcome
from dyda.maintenance.loop import Maintainer
from dyda.open_project import OpenProject
from tests.recompute_oracle import Judge, all_printed, printed


class Town:
    """`source("crm", "CREATE TABLE …")`, `view("v", "SELECT …")`, `apply()`, `settle()`, `check()`."""

    def __init__(
        self,
        folder: Path,
        database: Callable[[str], str],
        engine: Engine | None,
        maintenance: str = "",
        spark: str = "",
    ) -> None:
        self.folder = folder
        self.database = database
        self.engine = engine
        self.maintenance = maintenance
        self.spark = spark
        self.sources: dict[str, str] = {}
        self.capture = "triggers"
        self.warehouse = database("warehouse")
        self._judge: Judge | None = None
        (folder / "views").mkdir(parents=True, exist_ok=True)

    def source(self, name: str, *statements: str, url: str | None = None) -> str:
        self.sources[name] = url or self.database(name if name.isidentifier() else "source")
        self._write_settings()
        self.execute(name, *statements)
        return self.sources[name]

    def source_url(self, name: str, url: str) -> None:
        """Let the project connect to a source in another way than the test does."""
        self.sources[name] = url
        self._write_settings()

    def _write_settings(self) -> None:
        lines = [f"[warehouse]\nurl = {json.dumps(self.warehouse)}\n"]
        capture = "" if self.capture == "triggers" else f"capture = {json.dumps(self.capture)}\n"
        lines += [
            f"[sources.{json.dumps(name)}]\nurl = {json.dumps(url)}\n{capture}" for name, url in self.sources.items()
        ]
        lines.append(f'[spark]\nmaster = "local[2]"\n{self.spark}\n\n[maintenance]\n{self.maintenance}\n')
        file = self.folder / "dyda.toml"
        if file.exists():  # whoever edits it keeps what `apply` has written into it
            lines.append("".join(file.read_text().partition("[project]")[1:]))
        file.write_text("\n".join(lines))
        (self.folder / "dyda.toml").chmod(0o600)  # some tests put passwords into their urls

    def execute(self, name: str, *statements: str) -> int:
        """One transaction at a source; its transaction id."""
        connection = psycopg2.connect(self.sources[name])
        try:
            with connection, connection.cursor() as cursor:
                for statement in statements:
                    cursor.execute(statement)
                cursor.execute("SELECT pg_current_xact_id()::text::bigint")
                (xid,) = cursor.fetchone()
                return int(xid)
        finally:
            connection.close()

    def in_warehouse(self, *statements: str) -> None:
        """One transaction in the warehouse, behind DyDa's back."""
        connection = psycopg2.connect(self.warehouse)
        try:
            with connection, connection.cursor() as cursor:
                for statement in statements:
                    cursor.execute(statement)
        finally:
            connection.close()

    def connect(self, name: str) -> psycopg2.extensions.connection:
        return psycopg2.connect(self.sources[name])

    def view(self, name: str, text: str) -> None:
        (self.folder / "views" / f"{name}.sql").write_text(text)

    def apply(self) -> dict[str, Any]:
        return commands.apply(self.folder, lambda plan: True, lambda text, done, total: None, engine=self.engine)

    def apply_somewhere(self) -> None:
        """Here if the town has a Spark, else in a process that has one."""
        if self.engine is not None:
            self.apply()
        else:
            self.run("apply", "--yes", timeout=600)

    def settle_somewhere(self) -> None:
        """Run cycles until nothing is left to do: here if the town has a Spark, else in a process that has one."""
        if self.engine is not None:
            self.settle()
        else:
            self.run("daemon", "--until-idle", timeout=600)

    @contextmanager
    def opened(self) -> Iterator[OpenProject]:
        with OpenProject.open(self.folder, self.engine) as opened:
            yield opened

    @contextmanager
    def maintainer(self) -> Iterator[Maintainer]:
        with self.opened() as opened, opened.warehouse.lock() as writer:
            yield Maintainer(opened, writer)

    def settle(self, limit: int = 200) -> list[Outcome]:
        """Run cycles until nothing is left to do."""
        outcomes = []
        with self.maintainer() as maintainer:
            for _ in range(limit):
                outcomes.append(maintainer.cycle())
                if outcomes[-1] is Outcome.IDLE:
                    return outcomes
        raise AssertionError(f"not idle after {limit} cycles: {outcomes[-5:]}")

    def extent(self, view: str) -> Counter[str]:
        """What a reader of the warehouse sees."""
        return self.extents([view])[view]

    def extents(self, views: Iterable[str]) -> dict[str, Counter[str]]:
        """What one reader sees of several views, one after the other."""
        names = {view: '"' + view.replace('"', '""') + '"' for view in views}
        queries = [f"SELECT * FROM public.{name}" for name in names.values()]
        return dict(zip(names, all_printed(self.warehouse, queries), strict=True))

    def judge(self) -> Judge:
        if self._judge is None:
            self._judge = Judge(self.database("judge"))
        return self._judge

    def _copy_sources(self) -> None:
        for name, url in self.sources.items():
            tables = printed(
                url,
                "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace"
                " AND relkind IN ('r', 'p') AND NOT relispartition",
            )
            self.judge().copy(name, url, sorted(tables))

    def check(self, *views: str) -> None:
        """Every extent equals the judge's recomputation over the sources as they are."""
        self._copy_sources()
        chosen = views or [path.stem for path in (self.folder / "views").glob("*.sql")]
        for view, extent in self.extents(chosen).items():
            expected = self.judge().recompute((self.folder / "views" / f"{view}.sql").read_text())
            assert extent == expected, f"{view}: extra {extent - expected}, missing {expected - extent}"

    def check_definitions(self, *views: str) -> None:
        """Like `check`, for views whose definition has followed its sources: the current text is recomputed."""
        self._copy_sources()
        for view in views:
            extent, expected = self.extent(view), self.judge().recompute(_two_part(self.state(view)["definition"]))
            assert extent == expected, f"{view}: extra {extent - expected}, missing {expected - extent}"

    def state(self, view: str) -> dict[str, Any]:
        return next(entry for entry in commands.views(self.folder) if entry["name"] == view)

    def run(
        self, *arguments: str, fault: str = "", check: bool = True, timeout: int = 180
    ) -> subprocess.CompletedProcess[str]:
        """The command line as a process of its own."""
        environment = os.environ | ({"DYDA_FAULT": fault} if fault else {})
        done = subprocess.run(
            [sys.executable, "-m", "dyda", "-C", str(self.folder), *arguments],
            capture_output=True,
            text=True,
            env=environment,
            timeout=timeout,
            check=False,
        )
        if check and done.returncode != 0:
            raise AssertionError(
                f"dyda {' '.join(arguments)} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
            )
        return done

    def close(self) -> None:
        if self._judge is not None:
            self._judge.close()


def _two_part(definition: str) -> str:
    """The judge knows a source as a schema: `source`.`public`.`table` is `source`.`table` there."""
    return definition.replace("`public`.", "")
