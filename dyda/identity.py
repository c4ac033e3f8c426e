"""Whether a folder and a warehouse belong together: `apply` must not drop another project's views.

The folder has its id in dyda.toml (`[project] id`), which survives version control, copies and renames; the warehouse
stores the id of its project from the first `apply` on. If they differ, the folder is refused.

    folder \\ warehouse      no id yet              the same id     another id
    has an id               accepted, stored       accepted        refused
    has none (older)        accepted, both get one accepted if it has a view of this warehouse, or there is none to lose
"""

from __future__ import annotations

from pathlib import Path

from dyda.errors import DydaError
from dyda.project import Project, new_identity
from dyda.settings import read_toml
from dyda.warehouse import Warehouse

__all__ = ["ProjectMismatch", "claim", "refuse_another_project"]

SHOWN = 5
"""Views that are named, so that users recognize the project."""


class ProjectMismatch(DydaError):
    """The warehouse belongs to another project than this folder."""


def refuse_another_project(project: Project, warehouse: Warehouse) -> None:
    """Raise ProjectMismatch unless the folder may work on this warehouse."""
    owner, views = warehouse.owner()
    own = project.settings.project.id
    if owner is None or own == owner:
        return
    if own is None and (not views or _shares_a_view(project, views)):
        return
    names = sorted(views)
    shown = ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")
    me = f"this folder is project {own}" if own else f"the dyda.toml of {project.folder} names no project"
    raise ProjectMismatch(
        f"the warehouse belongs to project {owner} (views: {shown or 'none'}), and {me}",
        "A warehouse serves one project: give this one its own database in [warehouse] url. If this folder is meant"
        f' to be {owner}, write id = "{owner}" under [project] in its dyda.toml; `dyda apply` then drops views that'
        " have no file here.",
    )


def claim(project: Project, warehouse: Warehouse) -> str | None:
    """Store the project's id in folder and warehouse; a note about what was written into dyda.toml, if anything."""
    own = project.settings.project.id
    owner, _ = warehouse.owner()
    if owner is None:
        owner = warehouse.claim(own or new_identity(project.folder))
    refuse_another_project(project, warehouse)  # another folder may have been first, since this one was opened
    if own is not None:
        return None
    if _write(project.folder / "dyda.toml", owner):
        return f"dyda.toml now says that this folder is project {owner}, which owns the warehouse: keep that line"
    return (
        f"the warehouse belongs to project {owner}; dyda.toml could not be changed to say so:"
        f' add [project] with id = "{owner}" to it'
    )


def _shares_a_view(project: Project, views: dict[str, frozenset[str]]) -> bool:
    """A folder that an older DyDa applied has files of its views and the sources that they read."""
    known = set(project.settings.sources)
    return any(name in project.view_files and sources <= known for name, sources in views.items())


def _write(file: Path, identity: str) -> bool:
    """Append the id; False if the file cannot be written, or its other contents would change."""
    try:
        before = file.read_text(encoding="utf-8-sig")
        more = f'{"" if before.endswith(chr(10)) or not before else chr(10)}\n[project]\nid = "{identity}"\n'
        expected = {**read_toml(before, "dyda.toml"), "project": {"id": identity}}
        if "project" in read_toml(before, "dyda.toml") or read_toml(before + more, "dyda.toml") != expected:
            return False
        with file.open("a", encoding="utf-8") as opened:
            opened.write(more)
        return True
    except (OSError, DydaError):
        return False
