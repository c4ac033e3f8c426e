"""Commands that look into views: how they are maintained, whether they are right, and building them again."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dyda.commands.patience import Patience, Progress, given_up
from dyda.commands.verification import verify_view
from dyda.commands.work import attach, bring_about, hand_over
from dyda.engine import Engine
from dyda.errors import (
    DydaError,
    NotComputable,
    RelationRefused,
    UnknownColumn,
    UnknownRelation,
    UnsupportedSql,
)
from dyda.house import House
from dyda.maintenance import Maintainer, Target
from dyda.maintenance.live import load
from dyda.model.algebra.nodes import scans
from dyda.model.sql.parse import parse_view
from vm import explain_program

__all__ = ["execute_resync", "verify", "views_explain", "views_resync"]


def views_explain(folder: Path, name: str) -> dict[str, Any]:
    """How each operator of the view is maintained, and what an update costs its sources."""
    with House.open(folder) as house:
        record = house.warehouse.view(name)
        view = load(house).views.get(name)
        if view is None:
            return {"name": name, "steps": [], "queries_per_update": {}, "notes": [f"not maintained: {record.reason}"]}
        rows = explain_program(view.program)
        return {
            "name": name,
            "steps": [{"step": r.step, "subject": r.subject, "how": r.how} for r in rows if r.queries is None],
            "queries_per_update": {
                r.subject.removeprefix("a change of "): r.queries for r in rows if r.queries is not None
            },
            "notes": [f"{r.subject}: {r.how}" for r in rows if r.queries is not None],
        }


def views_resync(
    folder: Path,
    name: str,
    progress: Progress = lambda text, done, total: None,
    engine: Engine | None = None,
    timeout: float | None = None,
) -> dict[str, Any]:
    """Build the view again from its sources; readers keep the old rows until the new ones are complete."""
    with House.open(folder, engine) as house:
        house.warehouse.view(name)
        answer = hand_over(house, "resync", {"name": name, "timeout": timeout}, progress)
        if answer is not None:
            return answer
        with house.warehouse.lock(role="resync") as worker:
            return execute_resync(Maintainer(house, worker), name, progress, Patience(progress, timeout))


def execute_resync(
    maintainer: Maintainer, name: str, progress: Progress, patience: Patience | None = None
) -> dict[str, Any]:
    with given_up(f"{name} was not rebuilt"):
        return _rebuild(maintainer, name, progress, patience or Patience(progress))


def _rebuild(maintainer: Maintainer, name: str, progress: Progress, patience: Patience) -> dict[str, Any]:
    house = maintainer.house
    record = house.warehouse.view(name)
    sql = record.sql or ""
    # Whatever was lost at the sources, triggers among it, is put there again first. Where the text means nothing any
    # more, the build says so, or follows a rename.
    with contextlib.suppress(UnknownRelation, UnknownColumn, UnsupportedSql, NotComputable, RelationRefused):
        definition = parse_view(name, sql, house.describe, plain_numeric=_numeric(house))
        attach(maintainer, [scan.relation for scan in scans(definition.tree)], progress, patience)
    bring_about(maintainer, [Target(name, sql, None, "resync was asked for")], progress)
    after = house.warehouse.view(name)
    if after.stored_state == "broken":
        raise DydaError(
            f"view {name} stays broken: {after.reason}", "Correct the view's file or its source, then: dyda apply"
        )
    return {"name": name, "rows": after.rows, "state": after.state, "reason": after.reason}


def _numeric(house: House) -> str:
    return house.project.settings.spark.numeric


def verify(
    folder: Path,
    names: Sequence[str] = (),
    progress: Progress = lambda text, done, total: None,
    engine: Engine | None = None,
) -> list[dict[str, Any]]:
    """Recompute views at their committed positions and compare."""
    with House.open(folder, engine) as house:
        chosen = list(names) or [record.name for record in house.warehouse.views()]
        for name in chosen:
            house.warehouse.view(name)
        answers = []
        for name in chosen:
            progress(f"verifying {name}", 0, 1)
            answers.append(verify_view(house, name))
        return answers
