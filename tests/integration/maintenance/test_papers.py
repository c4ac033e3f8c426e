"""The papers' own examples, on real PostgreSQL and Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from dyda import faults
from tests.town import Town

COMPLETE = 'consistency = "complete"'

FIGURE_5_VIEW = """
SELECT r2.d, r3.f
FROM gamma.r1 JOIN alpha.r2 ON r1.b = r2.c JOIN beta.r3 ON r2.d = r3.e
"""

FIGURE_5_STATES = [
    Counter({"5\t6": 2, "7\t8": 2}),
    Counter({"5\t6": 2}),
    Counter({"5\t6": 1}),
]


def figure_5(town: Town) -> Iterator[Callable[[], int]]:
    """The relations of Figure 5 (paper 003), one per source; then its three updates, in its order.

    Sources are polled in the order of their names, so the arrival order is ΔR2, ΔR3, ΔR1 as in the paper.
    """
    town.source("gamma", "CREATE TABLE r1 (a int, b int)", "INSERT INTO r1 VALUES (1, 3), (2, 3)")
    town.source("alpha", "CREATE TABLE r2 (c int, d int)", "INSERT INTO r2 VALUES (3, 7)")
    town.source("beta", "CREATE TABLE r3 (e int, f int)", "INSERT INTO r3 VALUES (5, 6), (7, 8)")
    town.view("v", FIGURE_5_VIEW)
    town.apply()
    assert town.extent("v") == Counter({"7\t8": 2})
    yield lambda: town.execute("alpha", "INSERT INTO r2 VALUES (3, 5)")
    yield lambda: town.execute("beta", "DELETE FROM r3 WHERE (e, f) = (7, 8)")
    yield lambda: town.execute("gamma", "DELETE FROM r1 WHERE (a, b) = (2, 3)")


@pytest.mark.parametrize("maintenance", ["", COMPLETE], ids=["strong", "complete"])
def test_figure_5_of_paper_003_sequential(new_town: Callable[..., Town], maintenance: str) -> None:
    town = new_town(maintenance)
    for update, state in zip(figure_5(town), FIGURE_5_STATES, strict=True):
        update()
        town.settle()
        assert town.extent("v") == state


def test_figure_5_of_paper_003_concurrent(new_town: Callable[..., Town]) -> None:
    """All three updates are committed before the first is processed; each state appears all the same."""
    town = new_town(COMPLETE)
    for update in figure_5(town):
        update()
    states: list[Counter[str]] = []
    with faults.on("install.committed", lambda: states.append(town.extent("v"))):
        town.settle()
    assert states == FIGURE_5_STATES


def test_figure_5_of_paper_003_interleaved(new_town: Callable[..., Town]) -> None:
    """The second and third update commit between the hops of the sweep for the first."""
    town = new_town(COMPLETE)
    updates = list(figure_5(town))
    late = iter(updates[1:])
    states: list[Counter[str]] = []
    updates[0]()

    def commit_next() -> None:
        update = next(late, None)
        if update is not None:
            update()

    with (
        faults.on("sweep.before-hop", commit_next),
        faults.on("install.committed", lambda: states.append(town.extent("v"))),
    ):
        town.settle()
    assert states == FIGURE_5_STATES


def test_figure_1_of_paper_000(town: Town) -> None:
    """An update that the query has read and that is announced late, and one announced early that it has not read.

    TR1 changes tx and commits late, TR3 changes ty and commits early, the maintenance query runs between. Whatever it
    reads, nothing is missed and nothing is compensated twice, because the log is read under the query's snapshot.
    """
    town.source("one", "CREATE TABLE r (x int, k int)", "INSERT INTO r VALUES (1, 1), (2, 1)")
    town.source("two", "CREATE TABLE n (k int)", "INSERT INTO n VALUES (7)")
    town.view("v", "SELECT r.x, n.k FROM one.r JOIN two.n ON r.k = n.k")
    town.apply()
    town.execute("two", "INSERT INTO n VALUES (1)")  # δRn: its maintenance query Q reads r
    tr1, tr3 = town.connect("one"), town.connect("one")
    tr1.cursor().execute("UPDATE r SET x = 10 WHERE x = 1")  # T1: locks tx, not committed

    def before_the_query() -> None:  # T3, T4: TR3 commits after the query's snapshot was taken
        if not tr3.closed:
            tr3.cursor().execute("UPDATE r SET x = 20 WHERE x = 2")
            tr3.commit()
            tr3.close()

    def after_the_query() -> None:  # T6: TR1 commits while the answer is on its way
        if not tr1.closed:
            tr1.commit()
            tr1.close()

    states: list[Counter[str]] = []
    with (
        faults.on("sweep.before-hop", before_the_query),
        faults.on("sweep.after-hop", after_the_query),
        faults.on("install.committed", lambda: states.append(town.extent("v"))),
    ):
        town.settle()
    assert states[0] == Counter({"1\t1": 1, "2\t1": 1}), "Q sees neither: both committed after its snapshot"
    assert states[-1] == Counter({"10\t1": 1, "20\t1": 1})
    town.check()


def test_figure_1_of_paper_000_read_before_it_is_announced(town: Town) -> None:
    """TR1 commits before the query's snapshot: the query reads its row, and its log is visible with it."""
    town.source("one", "CREATE TABLE r (x int, k int)", "INSERT INTO r VALUES (1, 1), (2, 1)")
    town.source("two", "CREATE TABLE n (k int)", "INSERT INTO n VALUES (7)")
    town.view("v", "SELECT r.x, n.k FROM one.r JOIN two.n ON r.k = n.k")
    town.apply()
    town.execute("two", "INSERT INTO n VALUES (1)")
    tr1 = town.connect("one")
    tr1.cursor().execute("UPDATE r SET x = 10 WHERE x = 1")
    town.execute("one", "UPDATE r SET x = 20 WHERE x = 2")  # a later transaction, committed earlier
    tr1.commit()
    tr1.close()
    town.settle()
    assert town.extent("v") == Counter({"10\t1": 1, "20\t1": 1})
    town.check()


EXAMPLE_1_POINTS = [
    "unit.snapshots-open",
    "unit.messages-received",
    "sweep.before-hop",
    "sweep.after-hop",
    "unit.swept",
    "unit.evaluated",
    "unit.checked",
    "install.begun",
    "install.merged",
    "install.before-commit",
    "install.committed",
    "acknowledge.before",
    "acknowledge.after",
]


def test_duplication_anomaly_of_paper_001(town: Town) -> None:
    """Example 1: ΔF is committed at every fault point of ΔC's processing, one run each; its row appears once."""
    town.source("crm", "CREATE TABLE customer (name text, address text, phone int)")
    town.source("booking", "CREATE TABLE flight_res (name text, age int, flight_no text, dest text)")
    town.view(
        "asia_customer",
        "SELECT c.name, f.age, f.flight_no, f.dest FROM crm.customer c JOIN booking.flight_res f ON c.name = f.name"
        " WHERE f.dest = 'Asia'",
    )
    town.apply()
    for number, point in enumerate(EXAMPLE_1_POINTS):
        ben = f"Ben{number}"
        committed: list[int] = []

        def commit(ben: str = ben, committed: list[int] = committed) -> None:
            if not committed:
                insert = f"INSERT INTO flight_res VALUES ('{ben}', 18, 'AA3456', 'Asia')"
                committed.append(town.execute("booking", insert))

        town.execute("crm", f"INSERT INTO customer VALUES ('{ben}', 'MA', 123456)")
        with faults.on(point, commit):
            town.settle()
        assert committed, f"{point} was not passed"
        town.settle()
        assert town.extent("asia_customer")[f"{ben}\t18\tAA3456\tAsia"] == 1, point
    town.check()


def test_a_source_transaction_waits_for_nobody(town: Town) -> None:
    """A writer that is in the middle of a transaction neither blocks a unit nor is blocked by it."""
    town.source("one", "CREATE TABLE r (k int)", "CREATE TABLE s (k int)", "INSERT INTO s VALUES (1), (2)")
    town.view("v", "SELECT r.k FROM one.r JOIN one.s ON r.k = s.k")
    town.apply()
    writer = town.connect("one")
    writer.cursor().execute("INSERT INTO r VALUES (1)")
    town.execute("one", "INSERT INTO r VALUES (2)")
    town.settle()
    assert town.extent("v") == Counter({"2": 1})
    writer.commit()
    writer.close()
    town.settle()
    assert town.extent("v") == Counter({"1": 1, "2": 1})
