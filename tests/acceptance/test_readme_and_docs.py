"""The documents are true: every command, setting, option and dependency is in them, and every link leads somewhere."""

from __future__ import annotations

import dataclasses
import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import dyda.settings
from dyda.cli.main import cli

TOP = Path(__file__).parents[2]
DOCUMENTS = [TOP / "README.md", TOP / "CHANGELOG.md", *sorted((TOP / "docs").rglob("*.md"))]


def commands(command: click.Command, path: str) -> Iterator[tuple[str, click.Command]]:
    """Every command under its full name, `dyda views show` and the like."""
    yield path, command
    if isinstance(command, click.Group):
        for name, child in command.commands.items():
            yield from commands(child, f"{path} {name}")


COMMANDS = dict(list(commands(cli, "dyda"))[1:])


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_documented(name: str) -> None:
    text = (TOP / "docs" / "reference" / "commands.md").read_text()
    sections = re.split(r"^## ", text, flags=re.M)
    mine = [section for section in sections if re.match(rf"`{re.escape(name)}( [A-Z\[][^`]*)?`\n", section)]
    assert len(mine) == 1, f"docs/reference/commands.md needs one section `{name}`"
    for parameter in COMMANDS[name].params:
        for option in [word for word in parameter.opts if word.startswith("--") and word != "--json"]:
            assert f"`{option}" in mine[0], f"{option} of `{name}` is not documented"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(name: str) -> None:
    assert COMMANDS[name].help, f"{name} has no docstring"
    assert {"-C", "--json"} <= {option for parameter in COMMANDS[name].params for option in parameter.opts}


@pytest.mark.parametrize("name", [name.removeprefix("dyda ") for name in COMMANDS])
def test_every_json_answer_is_documented(name: str) -> None:
    if name != "daemon":
        assert f"| `{name}` |" in (TOP / "docs" / "reference" / "json.md").read_text()


def test_documented_commands_exist() -> None:
    """What the documents tell to type is there."""
    unknown = set()
    for document in DOCUMENTS:
        for words in re.findall(
            r"(?:^    |`)dyda ((?:[a-z][a-z-]*|-C \S+|--\S+)(?: (?:[a-z][a-z-]*|-C \S+|--\S+))*)",
            document.read_text(),
            re.M,
        ):
            plain = [word for word in re.sub(r"-C \S+", "", words).split() if not word.startswith("-")]
            if plain and f"dyda {plain[0]}" not in COMMANDS:
                unknown.add((document.name, words))
    assert not unknown


def test_every_setting_is_documented() -> None:
    text = (TOP / "docs" / "reference" / "settings.md").read_text()
    for section in dataclasses.fields(dyda.settings.Settings):
        assert re.search(rf"^## `\[\[?{section.name}", text, re.M), section.name
    for field in dataclasses.fields(dyda.settings.NotifyEntry):
        assert f"`{field.name}`" in text, f"{field.name} is not documented"
    for part in ("Warehouse", "Spark", "Maintenance", "Preference", "Daemon"):
        for field in dataclasses.fields(getattr(dyda.settings, f"{part}Settings")):
            assert f"`{field.name}`" in text, f"{field.name} is not documented"
    for field in dataclasses.fields(dyda.settings.SourceEntry):
        assert field.name == "name" or f"`{field.name}`" in text


def test_every_dependency_has_a_reason() -> None:
    project = tomllib.loads((TOP / "pyproject.toml").read_text())["project"]
    text = (TOP / "docs" / "explanation" / "dependencies.md").read_text()
    for requirement in project["dependencies"] + project["optional-dependencies"]["dev"]:
        name = re.match(r"[A-Za-z0-9_-]+", requirement)
        assert name is not None
        assert re.search(rf"\b{name[0]}\b", text), f"docs/explanation/dependencies.md does not say why {name[0]}"
        assert re.search(r"[<=]", requirement), f"{requirement} has no bound"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(TOP)))
def test_links_lead_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", document.read_text()):
        assert (document.parent / target).exists(), f"{document.name} links to {target}"


def test_the_first_screen_of_the_readme_has_both_commands() -> None:
    first_screen = "\n".join((TOP / "README.md").read_text().splitlines()[:40])
    targets = re.findall(r"^    make ([a-z]+)$", first_screen, re.M)
    assert targets == ["demo", "test"]
    for target in [*targets, "check"]:
        assert subprocess.run(["make", "-n", target], cwd=TOP, capture_output=True, check=False).returncode == 0
    ci = (TOP / ".ci" / "run").read_text()
    assert "make check\nmake test\n" in ci


def test_the_readme_quotes_only_what_was_measured() -> None:
    told = (TOP / "README.md").read_text().split("## What it costs\n")[1].split("\n## ")[0]
    quoted = re.findall(r"\d[\d,.]*\d|\d\d+", re.sub(r"\]\([^)]*\)", "", told))
    measured = (TOP / "docs" / "performance.md").read_text()
    assert quoted
    assert [number for number in quoted if not re.search(rf"(?<![\d.,]){re.escape(number)}(?![\d.,])", measured)] == []
