"""A project is a folder: dyda.toml, views/*.sql, knowledge.toml, and .dyda/ for DyDa's own files."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from dyda.errors import ConfigurationError
from dyda.model.relation import RelationName
from dyda.passwords import check_url, refuse_readable_by_others, with_password_of
from dyda.settings import LONGEST_NAME, Settings, SourceEntry, WarehouseSettings, places_with_passwords, read_toml

__all__ = ["Project", "new_identity"]

LARGEST_FILE = 2**20
"""Bytes of a file that people write; a larger one is a mistake, and would take minutes to read."""


@dataclass(frozen=True)
class Project:
    """The folder as it is now. `view_files` is the text of each views/NAME.sql by NAME, sorted.

    `knowledge_file` is the text of knowledge.toml, or None. It is parsed only when applied, like a view: a mistake
    in it stops no other command.
    """

    folder: Path
    settings: Settings
    view_files: Mapping[str, str]
    knowledge_file: str | None = None

    @classmethod
    def load(cls, folder: Path | str, environment: Mapping[str, str] = os.environ) -> Project:
        folder = _resolved(folder)
        file = folder / "dyda.toml"
        if not file.is_file():
            raise ConfigurationError(
                f"{folder} is not a DyDa project: it has no dyda.toml",
                "Choose a project with -C DIR, or create one: dyda init DIR",
            )
        knowledge = folder / "knowledge.toml"
        text = _text(file, "dyda.toml")
        settings = Settings.parse(text, environment)
        for place in places_with_passwords(text):
            refuse_readable_by_others(file, f"the password in [{place}] url of")
        return cls(
            folder,
            _with_passwords(settings, folder, environment),
            _view_files(folder / "views"),
            _text(knowledge, "knowledge.toml") if knowledge.exists() else None,
        )

    @classmethod
    def create(cls, folder: Path | str) -> Project:
        """A new project that runs as it is: an embedded warehouse and one embedded source."""
        folder = _resolved(folder)
        if (folder / "dyda.toml").exists():
            raise ConfigurationError(f"{folder} is a DyDa project already", "Choose another folder.")
        try:
            (folder / "views").mkdir(parents=True, exist_ok=True)
            (folder / "dyda.toml").write_text(_TEMPLATE.replace("IDENTITY", new_identity(folder)), encoding="utf-8")
            if not (folder / ".gitignore").exists():
                (folder / ".gitignore").write_text(".dyda/\n", encoding="utf-8")
        except OSError as error:
            raise ConfigurationError(f"cannot write to {folder}: {error.strerror}", "Choose another folder.") from None
        return cls.load(folder)

    def source(self, name: str) -> SourceEntry:
        """What dyda.toml says about this source."""
        try:
            return self.settings.sources[name]
        except KeyError:
            known = ", ".join(self.settings.sources) or "none"
            raise ConfigurationError(
                f"there is no source {name!r}; this project has: {known}", f"Add [sources.{name}] to dyda.toml."
            ) from None

    def relation_name(self, source: str, schema: str | None, table: str) -> RelationName:
        """What a view means by `source.table`: the source's own schema if none is written."""
        return RelationName(source, schema or self.source(source).schema, table)

    def knowledge_document(self) -> dict[str, Any]:
        """knowledge.toml as a document; empty if there is none."""
        return read_toml(self.knowledge_file or "", "knowledge.toml")

    @property
    def archives(self) -> Path:
        """Where Java may keep Spark's classes."""
        return self.folder / ".dyda" / "spark"

    def server_folder(self, name: str) -> Path:
        """Where the embedded server `name` (`warehouse`, or a source's name) keeps its data."""
        return self.folder / ".dyda" / "pg" / name


Entry = TypeVar("Entry", WarehouseSettings, SourceEntry)


def _with_passwords(settings: Settings, folder: Path, environment: Mapping[str, str]) -> Settings:
    """The settings with the passwords of password files; urls that libpq cannot read are refused."""

    def complete(entry: Entry, place: str) -> Entry:
        if entry.embedded:
            return entry
        check_url(entry.url, place, environment)
        if entry.password_file is None:
            return entry
        return replace(entry, url=with_password_of(entry.url, folder / entry.password_file, place))

    return replace(
        settings,
        warehouse=complete(settings.warehouse, "warehouse"),
        sources={name: complete(entry, f"sources.{name}") for name, entry in settings.sources.items()},
    )


def new_identity(folder: Path) -> str:
    """An id for a new project: the folder's name, for people, and a random part that makes it unique."""
    name = re.sub(r"[^\w.-]+", "-", folder.name, flags=re.ASCII).strip("-")[:60] or "project"
    return f"{name}-{secrets.token_hex(4)}"


def _resolved(folder: Path | str) -> Path:
    """The folder's full path, whether or not it exists."""
    try:
        path = Path(folder).resolve()
        (path / "dyda.toml").exists()
        return path
    except (OSError, RuntimeError) as error:  # a loop of symbolic links, a name that is too long
        why = getattr(error, "strerror", None) or str(error)
        raise ConfigurationError(f"{str(folder)[:200]} cannot be a project: {why}", "Choose another folder.") from None


def _view_files(folder: Path) -> dict[str, str]:
    """Every view's text. An unreadable folder or file is an error: a view that seems gone would be dropped."""
    try:
        names = sorted(os.listdir(folder))
    except FileNotFoundError:
        names = []
    except OSError as error:
        raise ConfigurationError(f"{folder} cannot be read: {error.strerror}", "Make it a readable folder.") from None
    # Hidden files are editors' leftovers (.#name.sql, .name.sql.swp), never views.
    files = [folder / name for name in names if name.endswith(".sql") and not name.startswith(".")]
    for path in files:
        if any("\udc80" <= character <= "\udcff" for character in path.name):
            shown = os.fsencode(path.name).decode("utf-8", "backslashreplace")
            raise ConfigurationError(f"views/{shown}: its name is not UTF-8", "Give the file another name.")
        if len(path.stem.encode()) > LONGEST_NAME:
            raise ConfigurationError(
                f"views/{path.name}: a view's name has at most {LONGEST_NAME} bytes", "Give the file a shorter name."
            )
    return {path.stem: _text(path, f"views/{path.name}") for path in files}


def _text(path: Path, shown: str) -> str:
    try:
        if not path.is_file() and path.exists():
            raise ConfigurationError(f"{shown} is not a file", "Replace it with a file, or remove it.")
        if (size := path.stat().st_size) > LARGEST_FILE:
            raise ConfigurationError(
                f"{shown} has {size} bytes, more than {LARGEST_FILE}",
                "Put long lists of values into a table at a source and join it.",
            )
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{shown} is not UTF-8 (byte {error.start})", "Save the file as UTF-8.") from None
    except OSError as error:
        raise ConfigurationError(f"{shown} cannot be read: {error.strerror}", "Check its permissions.") from None


_TEMPLATE = """\
# ${NAME} in a value is taken from the environment.

[project]
id = "IDENTITY"  # identifies the project to its warehouse; keep it in every copy of this folder

[warehouse]
url = "embedded"            # or any libpq URL: "postgresql://user:${DW_PASSWORD}@host/database"
schema = "public"           # where readers find the views

[sources.example]
url = "embedded"            # `dyda sources --json` shows the URL of an embedded server
schema = "public"           # what the short name example.customer means

# A view is a file in views/, for example views/customer_orders.sql:
#
#   SELECT c.name, o.placed_on, o.amount * 1.2 AS gross
#   FROM example.customer c
#   JOIN example.orders o ON o.customer_id = c.id
#   WHERE o.amount > 100
"""
