"""`dyda apply`: make the warehouse match views/ and knowledge.toml."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dyda.commands.handover import attach, bring_about, hand_over, release
from dyda.commands.knowledge import CHANGED, plan_knowledge
from dyda.commands.open_transactions import Patience, Progress, given_up
from dyda.commands.status import told
from dyda.errors import CaptureBlocked, DydaError, MissingRights, SourceBusy, SourceUnreachable
from dyda.identity import claim
from dyda.model.algebra.nodes import scans
from dyda.model.cause import BuildReason, ToBeBuilt
from dyda.model.view_state import ViewState
from dyda.open_project import OpenProject
from dyda.project import Project
from dyda.warehouse import Warehouse

if TYPE_CHECKING:
    from dyda.commands.file_check import CheckedFiles
    from dyda.engine import Engine
    from dyda.maintenance.catalog_state import CatalogState
    from dyda.maintenance.loop import Maintainer

__all__ = ["ApplyPlan", "apply", "execute_apply", "execute_check", "plan_apply"]

DONE = {"create": "created", "change": "changed", "drop": "dropped", "recover": "recovered"}
VIEWS = ("create", "change", "drop", "recover", "evolved", "unchanged")


@dataclass(frozen=True)
class ApplyPlan:
    """What `apply` would do. `evolved` views were rewritten since their file was applied, and are left alone."""

    create: tuple[str, ...] = ()
    change: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    recover: tuple[str, ...] = ()
    evolved: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    knowledge: str = "none"
    """What happens to knowledge.toml: one of the above, or none if there is no such file."""

    @property
    def empty(self) -> bool:
        return not (self.create or self.change or self.drop or self.recover) and self.knowledge not in CHANGED

    @property
    def reads(self) -> bool:
        """Whether there are new or changed files."""
        return bool(self.create or self.change) or self.knowledge in CHANGED


def plan_apply(folder: Path) -> ApplyPlan:
    """Compare the files with the texts last applied."""
    with OpenProject.open(folder) as opened:
        return _plan(opened, opened.project)


def apply(
    folder: Path,
    confirm: Callable[[ApplyPlan], bool],
    progress: Progress = lambda text, done, total: None,
    engine: Engine | None = None,
    timeout: float | None = None,
) -> dict[str, Any]:
    """Read the files, show the plan to `confirm` and, if it agrees, carry it out: here, or in the running daemon.

    `timeout`: seconds to wait for transactions that keep capture from being attached; None: until they end.
    """
    from dyda.maintenance.catalog_state import load
    from dyda.maintenance.loop import Maintainer

    with OpenProject.open(folder, engine) as opened:
        plan = _plan(opened, opened.project)
        if plan.reads and hand_over(opened, "check", {}, progress) is None:
            _check(opened, opened.project, plan, load(opened))
        if not plan.empty and not confirm(plan):
            return {"cancelled": True}
        if (note := claim(opened.project, opened.warehouse)) is not None:
            progress(note, 1, 1)
        if plan.empty:
            _bring_capture_up_to_date(opened)
            return _answer(opened.warehouse, plan)
        answer = hand_over(opened, "apply", {"timeout": timeout}, progress)
        if answer is not None:
            return answer
        with opened.warehouse.lock(role="apply") as writer:
            return execute_apply(Maintainer(opened, writer), opened.project, progress, Patience(progress, timeout))


def _bring_capture_up_to_date(opened: OpenProject) -> None:
    """At sources that an older DyDa or another role attached. Unavailable sources are updated next time."""
    for name in sorted({record.relation.name.source for record in opened.warehouse.relations() if record.captured}):
        if name in opened.sources:
            with suppress(SourceUnreachable, SourceBusy, MissingRights):
                opened.source(name).attach([])


def execute_apply(
    maintainer: Maintainer, project: Project, progress: Progress, patience: Patience | None = None
) -> dict[str, Any]:
    """Carry out what `project`'s files ask for. All new texts are checked before the first one is built."""
    plan = _plan(maintainer.opened, project)
    with given_up(_undone(plan)):
        return _carry_out(maintainer, project, plan, progress, patience or Patience(progress))


def _undone(plan: ApplyPlan) -> str:
    """What is missing if the plan fails."""
    parts = (("created", plan.create), ("changed", plan.change), ("rebuilt", plan.recover))
    texts = [f"{', '.join(names)} {'was' if len(names) == 1 else 'were'} not {how}" for how, names in parts if names]
    return "; ".join(texts) or "the plan was not carried out"


def _carry_out(
    maintainer: Maintainer, project: Project, plan: ApplyPlan, progress: Progress, patience: Patience
) -> dict[str, Any]:
    from dyda.commands.broken_views import recover
    from dyda.maintenance.catalog_state import BuildRequest

    opened = maintainer.opened
    reasons = dict.fromkeys(plan.create, BuildReason.CREATED) | dict.fromkeys(plan.change, BuildReason.FILE_CHANGED)
    files = _check(opened, project, plan, maintainer.known)
    definitions, knowledge = files.definitions, files.knowledge
    # Views of a source that the project no longer has would get in the way of a build: they are dropped first. The
    # others are dropped when everything else has succeeded: a failed build must not cost another view.
    records = {record.name: record for record in opened.warehouse.views()}
    lost = [name for name in plan.drop if set(records[name].positions) - set(opened.sources)]
    _drop(maintainer, lost)
    read = [scan.relation for definition in definitions.values() for scan in scans(definition.tree)]
    with _given_back(maintainer, patience):
        attach(maintainer, [*read, *(knowledge.relations if knowledge else ())], progress, patience)
        if knowledge is not None:
            knowledge.keep(maintainer.writer)
            maintainer.reload()
        targets = [
            BuildRequest(name, definitions[name].sql, project.view_files[name], ToBeBuilt(reason))
            for name, reason in reasons.items()
        ]
        for name in plan.recover:
            recovered = recover(maintainer, maintainer.known.frozen[name], project.view_files[name])
            if recovered is not None:
                target, definition = recovered
                attach(maintainer, [scan.relation for scan in scans(definition.tree)], progress, patience)
                targets.append(target)
        if targets:
            with _announced(maintainer, plan.create):
                bring_about(maintainer, targets, progress)
    _drop(maintainer, [name for name in plan.drop if name not in lost])
    release(maintainer)
    return _answer(opened.warehouse, plan)


def execute_check(maintainer: Maintainer, project: Project) -> dict[str, Any]:
    """Check the files that `project` would apply, and change nothing."""
    _check(maintainer.opened, project, _plan(maintainer.opened, project), maintainer.known)
    return {}


def _check(opened: OpenProject, project: Project, plan: ApplyPlan, known: CatalogState) -> CheckedFiles:
    from dyda.commands.file_check import check_files

    return check_files(opened, project, known, [*plan.create, *plan.change], plan.knowledge)


def _drop(maintainer: Maintainer, names: Iterable[str]) -> None:
    for name in names:
        maintainer.writer.drop_view(name)
        maintainer.reload()


@contextmanager
def _given_back(maintainer: Maintainer, patience: Patience) -> Iterator[None]:
    """Release capture again that was attached for views which could not be built."""
    try:
        yield
    except DydaError as error:
        if patience.last or not isinstance(error, CaptureBlocked):
            with suppress(DydaError):  # the first error is the one to report
                release(maintainer)
        raise


@contextmanager
def _announced(maintainer: Maintainer, names: Iterable[str]) -> Iterator[None]:
    """New views are `building` until they are installed; one that cannot be built leaves no trace."""
    for name in names:
        maintainer.writer.create_view(name)
    maintainer.reload()
    try:
        yield
    except BaseException:
        for name in names:
            with suppress(DydaError):
                maintainer.writer.drop_view(name)
        maintainer.reload()
        raise


def _plan(opened: OpenProject, project: Project) -> ApplyPlan:
    from dyda.commands.view_files import readers_of

    records = {record.name: record for record in opened.warehouse.views()}
    plan: dict[str, list[str]] = {name: [] for name in VIEWS}
    files = project.view_files
    moved = {name for name, text in files.items() if name not in records or records[name].file_text != text}
    above = readers_of(files, moved | (records.keys() - files.keys()))
    for name, text in files.items():
        record = records.get(name)
        if record is None or record.version is None:  # without a version: the process that built it has died
            verb = "create"
        elif record.file_text != text or name in above:
            verb = "change"
        elif record.stored_state == ViewState.BROKEN:
            verb = "recover"
        else:
            verb = "evolved" if record.details.get("evolved") else "unchanged"
        plan[verb].append(name)
    plan["drop"] = [name for name in records if name not in files]
    return ApplyPlan(**{verb: tuple(names) for verb, names in plan.items()}, knowledge=plan_knowledge(opened, project))


def _answer(warehouse: Warehouse, plan: ApplyPlan) -> dict[str, Any]:
    records = {record.name: record for record in warehouse.views()}
    stay = [name for name in plan.recover if records[name].stored_state == ViewState.BROKEN]
    return {
        "created": [{"name": name, "rows": records[name].rows} for name in plan.create],
        "changed": [
            {"name": name, "rows": records[name].rows, "adaptation": records[name].details.get("adaptation")}
            for name in plan.change
        ],
        "recovered": [{"name": name, "rows": records[name].rows} for name in plan.recover if name not in stay],
        "broken": [{"name": name, **told(records[name].cause)} for name in stay],
        "dropped": list(plan.drop),
        "evolved": list(plan.evolved),
        "unchanged": list(plan.unchanged),
        "knowledge": None if plan.knowledge == "none" else DONE.get(plan.knowledge, plan.knowledge),
    }
