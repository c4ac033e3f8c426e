"""Whether a folder and a warehouse belong together: what `apply` drops must be the folder's own.

The folder says who it is in dyda.toml (`[project] id`), which travels with it through version control, copies and
renames; the warehouse remembers whose it is from the first `apply` on. Both say the same, or the folder is refused.

    folder \\ warehouse      nobody's yet           the same id     another id
    has an id               fits, takes it         fits            refused
    has none (older)        fits, both get one     fits if it has a view of this warehouse, or there is none to lose
"""

from __future__ import annotations

from pathlib import Path

from dyda.errors import DydaError
from dyda.project import Project
from dyda.settings import read_toml
from dyda.warehouse import Warehouse

__all__ = ["ProjectMismatch", "claim", "refuse_another_project"]

SHOWN = 5
"""Views that are named, so that one recognizes the project they belong to."""


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
        "A warehouse has one project: give this one a database of its own in [warehouse] url. If this folder is"
        f' meant to be {owner}, write id = "{owner}" under [project] in its dyda.toml; `dyda apply` then drops views'
        " that it has no file of.",
    )


def claim(project: Project, warehouse: Warehouse) -> str | None:
    """Make folder and warehouse name each other; a sentence about what was written into dyda.toml, if anything."""
    own = project.settings.project.id
    owner, _ = warehouse.owner()
    if owner is None:
        owner = warehouse.claim(own or project.new_identity())
    refuse_another_project(project, warehouse)  # another folder may have been first, since this one was opened
    if own is not None:
        return None
    if _write(project.folder / "dyda.toml", owner):
        return f"dyda.toml now says that this folder is project {owner}, to which the warehouse belongs: keep that line"
    return (
        f"the warehouse belongs to project {owner}; dyda.toml could not be changed to say so:"
        f' add [project] with id = "{owner}" to it'
    )


def _shares_a_view(project: Project, views: dict[str, frozenset[str]]) -> bool:
    """A folder that an older DyDa applied has files of its views, and the sources that these read."""
    known = set(project.settings.sources)
    return any(name in project.view_files and sources <= known for name, sources in views.items())


def _write(file: Path, identity: str) -> bool:
    """Append it; False if the file may not be written, or would not say what it said before and this."""
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
