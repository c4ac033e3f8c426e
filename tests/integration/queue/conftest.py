"""A project whose catalog holds two views and whatever queue a test puts there. Nothing is computed: no Spark."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

from dyda.commands.requests import Requests
from dyda.maintenance.loop import Maintainer
from dyda.model.cause import Text
from dyda.model.message import Change, DataUpdate, MessageState, SchemaChange, UpdateMessage
from dyda.model.position import Position
from dyda.model.relation import Column, Relation, RelationName
from dyda.model.types import PgType
from dyda.open_project import OpenProject
from dyda.warehouse import Installation, RelationState, ViewChange, ViewColumn, ViewVersion
from dyda.warehouse.writer import Writer

START = Position(10, 10)
TEXT = PgType("text", "text", True)
VIEWS = {
    "asia_customer": "SELECT c.name, f.dest FROM crm.customer c JOIN booking.flight_res f ON c.name = f.name",
    "pairs": "SELECT a.name FROM people.friend a JOIN people.friend b ON a.name = b.dest",
}


def relation(name: str) -> RelationName:
    source, _, table = name.partition(".")
    return RelationName(source, "public", table)


def rows(name: str, count: int = 1) -> DataUpdate:
    return DataUpdate(relation(name), count, 0)


def altered(name: str, command: str = "ALTER TABLE") -> SchemaChange:
    return SchemaChange(relation(name), command, f"{command} {name.partition('.')[2]} …")


class Project:
    """`project.receive(rows("crm.customer"), altered("booking.flight_res"))` gives the messages' numbers."""

    def __init__(self, folder: Path, database: Callable[[str], str], maintenance: str) -> None:
        self.folder = folder
        self._xid = 100
        lines = [f"[warehouse]\nurl = {json.dumps(database('warehouse'))}\n"]
        # Nobody reads the sources here, and nobody listens at port 1.
        lines += [
            f'[sources.{name}]\nurl = "postgresql://127.0.0.1:1/{name}"\n' for name in ("crm", "booking", "people")
        ]
        (folder / "views").mkdir(parents=True)
        (folder / "dyda.toml").write_text("\n".join([*lines, f"[maintenance]\n{maintenance}\n"]))
        with self.writer() as writer:
            tables = ("crm.customer", "crm.address", "booking.flight_res", "people.friend")
            writer.save_relations([RelationState(self._described(name)) for name in tables])
            for view, text in VIEWS.items():
                self._create(writer, view, text)

    @staticmethod
    def _described(name: str) -> Relation:
        columns = tuple(Column(column, TEXT, number) for number, column in enumerate(("name", "dest", "note"), 1))
        return Relation(relation(name), 1, columns)

    @staticmethod
    def _create(writer: Writer, view: str, text: str) -> None:
        width = 2 if "dest FROM" in text else 1
        names = [relation(name) for name in ("crm.customer", "booking.flight_res", "people.friend") if name in text]
        columns = tuple(ViewColumn(column, "text") for column in ("name", "dest")[:width])
        empty = pa.table(
            {f"c{index}": pa.array([], pa.string()) for index in range(1, width + 1)} | {"n": pa.array([], pa.int64())}
        )
        version = ViewVersion(text, columns, tuple(names), file_text=text)
        positions = dict.fromkeys(sorted({name.source for name in names}), (None, START))
        change = ViewChange(view, delta=empty, mode="replace", version=version, positions=positions)
        writer.install(Installation((change,)))

    @contextmanager
    def writer(self) -> Iterator[Writer]:
        with OpenProject.open(self.folder) as opened, opened.warehouse.lock() as writer:
            yield writer

    def receive(self, *changes: Change | tuple[Change, ...]) -> list[int]:
        """One transaction per argument, received in this order."""
        numbers = []
        with self.writer() as writer:
            for found in changes:
                of_message = found if isinstance(found, tuple) else (found,)
                self._xid += 1
                source = of_message[0].relation.source
                message = UpdateMessage(source, self._xid, self._xid, of_message)
                numbers.append(writer.receive(source, [message])[self._xid])
        return numbers

    def mark(self, number: int, state: str, reason: str) -> None:
        with self.writer() as writer:
            writer.mark_messages([number], MessageState(state), Text(reason))

    @contextmanager
    def daemon(self) -> Iterator[list[str]]:
        """A process that holds the lock as the daemon does and serves requests, without maintaining; its log."""
        said: list[str] = []
        ended, ready = threading.Event(), threading.Event()

        def serve() -> None:
            with OpenProject.open(self.folder) as opened, opened.warehouse.lock(role="daemon") as writer:
                requests = Requests(self.folder, Maintainer(opened, writer), said.append)
                ready.set()
                while not ended.is_set():
                    if not requests.serve():
                        ended.wait(0.02)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            assert ready.wait(30)
            yield said
        finally:
            ended.set()
            thread.join(30)


@pytest.fixture
def new_project(tmp_path: Path, database: Callable[[str], str]) -> Callable[..., Project]:
    return lambda maintenance="": Project(tmp_path / "project", database, maintenance)


@pytest.fixture
def project(new_project: Callable[..., Project]) -> Project:
    return new_project()
