"""An upgrade of DyDa finds rows and operator states that the version before it has computed.

The catalog keeps a fingerprint of the steps with each view (vm/fingerprint.py). What this version computes in other
steps is read again by itself; what it computes in the same ones is not.
"""

from __future__ import annotations

from dyda import commands
from tests.judge import printed
from tests.town import Town

OTHER = "the fingerprint of other steps"


def programs(town: Town) -> dict[str, str]:
    rows = printed(
        town.warehouse,
        "SELECT view, coalesce(program, 'none') FROM dyda.view_version JOIN dyda.view v"
        " ON v.name = view AND v.version = view_version.version",
    )
    return dict(row.split("\t") for row in rows)


def test_what_is_compiled_otherwise_is_read_again_and_nothing_else(town: Town) -> None:
    town.source("one", "CREATE TABLE r (k int, v int)", "INSERT INTO r VALUES (1, 1), (1, 2), (2, 3)")
    town.view("sums", "SELECT r.k, sum(r.v) AS s FROM one.r GROUP BY r.k")
    town.view("keys", "SELECT DISTINCT r.k FROM one.r")
    town.view("old", "SELECT * FROM one.r")
    town.view(
        "asked",
        "SELECT x.k FROM one.r x JOIN one.r y ON x.k = y.v WHERE EXISTS (SELECT 1 FROM one.r z WHERE z.v > 10 / x.v)",
    )
    town.apply()
    town.settle()
    built = programs(town)
    assert len(set(built.values())) == 4
    assert all(len(program) == 32 for program in built.values())

    # As another version would have left them: states of the same form that mean something else.
    (state,) = printed(town.warehouse, "SELECT (states->0->>'extent') FROM dyda.view_version WHERE view = 'sums'")
    town.in_warehouse(
        f"UPDATE dyda.extent_{state} SET c4 = '100'",
        f"UPDATE dyda.view_version SET program = '{OTHER}' WHERE view = 'sums'",
        # And two from before there were fingerprints: one that is compiled as ever, one that is not.
        "UPDATE dyda.view_version SET program = NULL WHERE view IN ('old', 'asked')",
    )
    town.execute("one", "INSERT INTO r VALUES (2, 4)")
    with town.maintainer() as maintainer:
        assert set(maintainer.known.unreadable) == {"sums", "asked"}
        for reason in maintainer.known.unreadable.values():
            assert "built in other steps than this version of DyDa" in reason
        assert set(maintainer.known.views) == {"keys", "old"}
    town.settle()
    town.check()
    assert programs(town) == built, "by the same compiler, all are what they were"
    versions = {view["name"]: view["version"] for view in commands.views(town.folder)}
    assert versions == {"sums": 2, "keys": 1, "old": 1, "asked": 2}
    causes = [entry["cause"] for entry in commands.views_history(town.folder, "sums")]
    assert "built in other steps" in causes[-1]
    assert {view["state"] for view in commands.views(town.folder)} == {"fresh"}

    # A rename is followed with the rows and states as they are.
    town.execute("one", "ALTER TABLE r RENAME COLUMN v TO w", "INSERT INTO r VALUES (3, 5)")
    town.settle()
    assert programs(town) == built
    town.check_definitions()
