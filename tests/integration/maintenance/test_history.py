"""A real town under the seeded workload: its recorded history is right, and stops being so when it is tampered with."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dyda.engine import Engine
from dyda.maintenance.cycle import Outcome
from tests.conftest import VERSION
from tests.torture.checking import check, examine
from tests.torture.history import History
from tests.torture.recorded_town import Recorded
from tests.torture.workload import SOURCES, VIEWS, Workload
from tests.town import Town

pytestmark = pytest.mark.skipif(VERSION < 18, reason="the recorder asks RETURNING for old and new rows")

TRANSACTIONS = 30


@dataclasses.dataclass
class Played:
    history: History
    judge: str


@pytest.fixture(scope="module")
def played(
    tmp_path_factory: pytest.TempPathFactory, module_database: Callable[[str], str], engine: Engine
) -> Iterator[Played]:
    """Data of two writers per source, every fifth transaction a schema change, cycles and readers in between."""
    town = Town(tmp_path_factory.mktemp("history"), module_database, engine)
    workload = Workload(6)
    for source in SOURCES:
        town.source(source, *workload.setup(source))
    for view, text in VIEWS.items():
        town.view(view, text)
    recorded = Recorded(town, History(6, "pytest tests/integration/maintenance/test_history.py"))
    try:
        recorded.begin()
        recorded.reader("statements")
        recorded.reader("transactions", "REPEATABLE READ", statements=3)
        writers = {source: [recorded.writer(source), recorded.writer(source)] for source in SOURCES}
        with town.maintainer() as maintainer:
            for number in range(TRANSACTIONS):
                drawn = workload.data() if number % 5 else workload.schema()
                writer = writers[drawn.source][number % 2]
                if writer.transaction(drawn.steps, isolation=drawn.isolation, commit=drawn.commit):
                    workload.tables[drawn.source].done(drawn)
                if number % 8 == 7:
                    maintainer.cycle()
            for _ in range(60):
                if maintainer.cycle() is Outcome.IDLE:
                    break
        recorded.end()
        yield Played(recorded.history, module_database("judge"))
    finally:
        for reader in recorded.readers:
            reader.stop()
        recorded.close()
        town.close()


def test_every_commit_and_every_read_of_the_workload_is_right(played: Played) -> None:
    report = examine(played.history, played.judge)
    assert not report.violations, "\n\n".join(map(str, report.violations))
    counted = played.history.count()
    assert counted["transactions"] > TRANSACTIONS / 2
    assert counted["schema changes"] > 3
    assert counted["commits"] > 3
    assert counted["reads"] > 3
    assert report.evaluated > len(VIEWS)


def test_a_lost_transaction_is_noticed(played: Played) -> None:
    """As if the warehouse had it and the source never did, and the other way round."""
    for number, transaction in enumerate(played.history.transactions):
        if transaction.xid and not transaction.schema and len(transaction.effects) == 1:
            tampered = _without(played.history, number)
            if check(tampered, played.judge):
                return
    pytest.fail("no transaction was missed")


def test_a_doubled_row_is_noticed(played: Played) -> None:
    tampered = copy.copy(played.history)
    last = played.history.commits[-1]
    view = next(name for name, state in sorted(last.views.items()) if played.history.bags[state.rows])
    rows = dict(played.history.bags[last.views[view].rows])
    rows[min(rows)] += 1
    doubled = dataclasses.replace(last.views[view], rows=tampered.keep(rows))
    tampered.commits = [*played.history.commits[:-1], dataclasses.replace(last, views={**last.views, view: doubled})]
    found = check(tampered, played.judge)
    assert found[0].rule == "correctness"
    assert {one.rule for one in found} <= {"correctness", "readers"}, "readers had seen the right rows"
    assert "should be" in found[0].history


def test_a_history_on_disk_is_judged_alike(played: Played, tmp_path: Path) -> None:
    played.history.save(tmp_path / "history.json")
    assert not check(History.load(tmp_path / "history.json"), played.judge)


def _without(history: History, number: int) -> History:
    tampered = copy.copy(history)
    tampered.transactions = history.transactions[:number] + history.transactions[number + 1 :]
    return tampered
