"""Every benchmark runs to its last line: what only a run of hours would show is shown by one of seconds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks.__main__ import BENCHMARKS, main
from benchmarks.harness.servers import Server, fdw_binaries, lending
from benchmarks.report.page import page
from dyda.engine import Engine
from tests.conftest import memory

WITHOUT_SERVERS = {"messages"}
"""Benchmarks that ask no database anything."""


@pytest.fixture(scope="module")
def machine() -> Iterator[Server]:
    """One server for all that a benchmark asks for."""
    settings = {"shared_buffers": "64MB", "fsync": "off", "full_page_writes": "off", "max_connections": "200"}
    server = Server(fdw_binaries(), {**settings, "max_wal_size": "256MB"}, place=memory())
    try:
        yield server
    finally:
        server.remove()


@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_tiny_run_writes_its_results(name: str, machine: Server, engine: Engine, tmp_path: Path) -> None:
    with lending(machine, engine):
        done = CliRunner().invoke(main, [name, "--profile", "tiny", "--into", str(tmp_path)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    document = json.loads((tmp_path / f"{name}.json").read_text())
    assert document["rows"]
    assert document["ran_on"]["profile"] == "tiny"
    assert bool(document["ran_on"].get("postgres")) == (name not in WITHOUT_SERVERS)
    plots = sorted(path.name for path in tmp_path.glob("*.png"))
    assert plots
    assert f"## {name}\n" in page([document], {name: plots})
