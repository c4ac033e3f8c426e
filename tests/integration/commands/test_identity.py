"""A folder and a warehouse belong together, or nothing is dropped: whatever is cloned, copied, renamed or older."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import psycopg2
import pytest

from dyda import commands
from dyda.commands import ApplyPlan
from dyda.commands.daemon_log import DaemonLog
from dyda.errors import DydaError
from dyda.identity import ProjectMismatch
from tests.town import Town


class Folder:
    """A project folder beside the town's, on the town's warehouse, as one writes it by hand."""

    def __init__(self, town: Town, path: Path, identity: str | None, sources: tuple[str, ...] = ("crm",)) -> None:
        self.path = path
        self.town = town
        (path / "views").mkdir(parents=True)
        lines = [f"[warehouse]\nurl = {json.dumps(town.warehouse)}\n"]
        lines += [f"[sources.{name}]\nurl = {json.dumps(town.sources[name])}\n" for name in sources]
        if identity:
            lines.append(f'[project]\nid = "{identity}"\n')
        (path / "dyda.toml").write_text("".join(lines))

    def view(self, name: str, text: str) -> None:
        (self.path / "views" / f"{name}.sql").write_text(text)

    def plan(self) -> ApplyPlan:
        return commands.plan_apply(self.path)

    def apply(self) -> list[str]:
        """What it said."""
        said: list[str] = []
        commands.apply(self.path, lambda plan: True, lambda text, done, total: said.append(text), self.town.engine)
        return said

    @property
    def text(self) -> str:
        return (self.path / "dyda.toml").read_text()


@pytest.fixture
def town(town: Town) -> Town:
    town.source("crm", "CREATE TABLE customer (name text, age int)", "INSERT INTO customer VALUES ('Ann', 7)")
    town.source("tours", "CREATE TABLE tour (guest text, age int)")
    return town


def test_a_second_folder_is_refused_before_it_drops_anything(town: Town, tmp_path: Path) -> None:
    first = Folder(town, tmp_path / "first", None)
    first.view("ages", "SELECT c.age FROM crm.customer c")
    said = first.apply()
    owner = first.text.rpartition("id = ")[2].strip().strip('"')
    assert owner.startswith("first-")
    assert any(owner in line and "dyda.toml" in line for line in said), "what was written is said"
    assert not any("dyda.toml" in line for line in first.apply()), "once"

    # Somebody else's: new, and without an id as one writes it by hand or an older version made it.
    asked: list[ApplyPlan] = []

    def refuse(plan: ApplyPlan) -> bool:
        asked.append(plan)
        return False

    for identity in ("second-1", None):
        second = Folder(town, tmp_path / f"second {identity}", identity)
        second.view("names", "SELECT c.name FROM crm.customer c")
        for attempt in (
            lambda folder=second: commands.apply(folder.path, refuse),
            lambda folder=second: commands.status(folder.path),
            lambda folder=second: commands.stop(folder.path),
            lambda folder=second: commands.run_daemon(folder.path, True, DaemonLog(print)),
        ):
            with pytest.raises(ProjectMismatch) as refused:
                attempt()
            assert owner in refused.value.what
            assert "ages" in refused.value.what
            assert f'id = "{owner}"' in refused.value.remedy
            assert "[warehouse] url" in refused.value.remedy
        assert asked == []
        assert town.extent("ages") == {"7": 1}

    # The same project elsewhere: cloned, copied, renamed, without its .dyda.
    clone = tmp_path / "a clone"
    shutil.copytree(first.path, clone, ignore=shutil.ignore_patterns(".dyda"))
    assert commands.plan_apply(clone).empty
    first.path.rename(tmp_path / "renamed")
    assert commands.plan_apply(tmp_path / "renamed").empty

    # Adopted on purpose.
    second = Folder(town, tmp_path / "heir", owner)
    second.view("names", "SELECT c.name FROM crm.customer c")
    assert second.plan().drop == ("ages",)
    assert second.plan().create == ("names",)


def test_a_project_of_an_older_version_goes_on_and_gets_its_name(town: Town, tmp_path: Path) -> None:
    older = Folder(town, tmp_path / "older", None)
    older.view("ages", "SELECT c.age FROM crm.customer c")
    older.apply()
    # As the migration leaves it: the warehouse has a name that no folder knows.
    town.in_warehouse("UPDATE dyda.project SET owner = 'project-1234abcd'")
    for name in ("here", "in production"):
        folder = Folder(town, tmp_path / name, None)
        folder.view("ages", "SELECT c.age FROM crm.customer c")
        assert commands.status(folder.path)["views"][0]["name"] == "ages"
        assert "[project]" not in folder.text, "looking changes no file"
        (folder.path / "dyda.toml").chmod(0o640)
        said = folder.apply()
        assert folder.text.endswith('\n[project]\nid = "project-1234abcd"\n')
        assert (folder.path / "dyda.toml").stat().st_mode & 0o777 == 0o640
        assert sum("project-1234abcd" in line for line in said) == 1
    # The same name of a view means nothing where its source is unknown.
    stranger = Folder(town, tmp_path / "stranger", None, sources=("tours",))
    stranger.view("ages", "SELECT t.age FROM tours.tour t")
    with pytest.raises(ProjectMismatch, match="names no project"):
        stranger.plan()


def test_two_folders_that_come_at_once_do_not_share_a_new_warehouse(town: Town, tmp_path: Path) -> None:
    """Both have looked before either has taken it."""
    one, other = (Folder(town, tmp_path / name, name) for name in ("one", "other"))
    for folder in (one, other):
        folder.view(folder.path.name, "SELECT c.age FROM crm.customer c")

    def meanwhile(plan: ApplyPlan) -> bool:
        one.apply()
        return True

    with pytest.raises(ProjectMismatch, match="project one"):
        commands.apply(other.path, meanwhile, engine=town.engine)
    assert town.extent("one") == {"7": 1}
    with pytest.raises(psycopg2.errors.UndefinedTable):
        town.extent("other")


def test_a_new_project_says_who_it_is(tmp_path: Path) -> None:
    for folder in (tmp_path / "my shop!", tmp_path / "two"):
        commands.init(folder)
    texts = [(folder / "dyda.toml").read_text() for folder in (tmp_path / "my shop!", tmp_path / "two")]
    assert 'id = "my-shop-' in texts[0]
    assert 'id = "two-' in texts[1]
    (tmp_path / "two" / "dyda.toml").write_text(texts[1].replace("two-", "two lines\\n"))
    with pytest.raises(DydaError, match=r"\[project\]: id is"):
        commands.status(tmp_path / "two")
