"""Anybody who may connect may take any advisory lock and keep it. That must not stop a source's views."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from dyda.errors import BrokenUnit
from tests.integration.security.conftest import Role
from tests.integration.sources.conftest import Ground

LOCKS = "SELECT pg_advisory_lock(1685677153, key) FROM generate_series(1, 3) AS key"


def test_a_stranger_who_keeps_our_advisory_locks_stops_nobody(ground: Ground, role: Callable[[str], Role]) -> None:
    ground.run("CREATE TABLE t (a int)")
    ground.watch("t")
    ground.run(LOCKS, connection=role("stranger").connect())
    ground.run("INSERT INTO t VALUES (1)")
    assert ground.logged("t", ["a"]) == Counter({("1",): 1})
    ground.run("SELECT dyda.mark_gap()")
    with ground.open() as snapshot:
        assert not snapshot.state.unsettled, "its lock is not taken for that of a writer under way"
        assert ground.source.acknowledge(snapshot.position) == 1


def test_P6_without_the_lock_a_log_that_shrinks_voids_the_unit(ground: Ground, role: Callable[[str], Role]) -> None:
    ground.run("CREATE TABLE t (a int)")
    ground.watch("t")
    ground.run("INSERT INTO t VALUES (1)")
    stranger = role("stranger").connect()
    ground.run(LOCKS, connection=stranger)
    with ground.open() as snapshot:
        ground.run("SELECT pg_advisory_unlock_all()", connection=stranger)
        with ground.open() as other:
            assert ground.source.acknowledge(other.position) == 1
        assert ground.run("SELECT dyda.shrink(-1)") == [(True,)]
        assert snapshot.messages(None) == [], "the log is empty to it from now on"
        with pytest.raises(BrokenUnit):
            snapshot.compare([])
