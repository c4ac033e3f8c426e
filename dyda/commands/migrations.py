"""Migration files in the order in which their tool runs them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from dyda.errors import DydaError

__all__ = ["Migration", "in_order", "read_migrations"]

VERSIONED = re.compile(r"V(\d+(?:[._]\d+)*)__.*\.sql")
REPEATABLE = re.compile(r"R__.*\.sql")
WAY_BACK = re.compile(r"(.*[._-])down\.sql")

NOT_IN_THE_TEXT = "THIS OPERATION CANNOT BE WRITTEN AS SQL"
"""What Django's sqlmigrate prints for an operation that is Python."""


@dataclass(frozen=True)
class Migration:
    """A DDL text and the name of its file, if it has one."""

    text: str
    file: str = ""

    @property
    def notes(self) -> list[str]:
        place = f"{self.file}, " if self.file else ""
        return [
            f"{place}line {number}: Django could not write this operation as SQL; it is not judged"
            for number, line in enumerate(self.text.splitlines(), 1)
            if line.startswith("--") and NOT_IN_THE_TEXT in line
        ]


def read_migrations(paths: Iterable[Path]) -> tuple[list[Migration], list[str]]:
    """The files, for a folder all its .sql files in order; and notes about that order."""
    migrations: list[Migration] = []
    notes: list[str] = []
    for path in paths:
        if path.is_dir():
            there = [file.relative_to(path).as_posix() for file in path.rglob("*.sql") if file.is_file()]
            names, rule = in_order(there)
            if not names:
                raise DydaError(f"there is no .sql file to judge in {path}", "Name a file or another folder with -f.")
            notes.append(f"read {rule}: {', '.join(names)}")
            left_out = sorted(set(there) - set(names))
            notes += [f"skipped (undo, baseline, callback or down files): {', '.join(left_out)}"] if left_out else []
            migrations += [Migration(_text(path / name), name) for name in names]
        else:
            migrations.append(Migration(_text(path), str(path)))
    return migrations, notes


def in_order(names: Iterable[str]) -> tuple[list[str], str]:
    """The files that migrate forward, in order, and by which rule.

    Flyway runs versions in numeric order, then repeatable files; its undo, baseline and callback files are left out.
    Other tools start file names with a number or a time; up and down files come in pairs.
    """
    there = sorted(names, key=_natural)
    versions = {name: match[1] for name in there if (match := VERSIONED.fullmatch(_last(name)))}
    if versions:
        repeatable = [name for name in there if REPEATABLE.fullmatch(_last(name))]
        versioned = sorted(versions, key=lambda name: _version(versions[name]))
        return versioned + sorted(repeatable, key=_last), "in Flyway's order"
    backward = {name for name in there if (match := WAY_BACK.fullmatch(name)) and f"{match[1]}up.sql" in there}
    return [name for name in there if name not in backward], "in the natural order of their names"


def _last(name: str) -> str:
    return name.rpartition("/")[2]


def _version(written: str) -> tuple[int, ...]:
    numbers = [int(number) for number in re.split(r"[._]", written)]
    while numbers and numbers[-1] == 0:  # 1.0 is 1
        numbers.pop()
    return tuple(numbers)


def _natural(name: str) -> list[tuple[int, int | str]]:
    """2_x before 10_x."""
    return [(0, int(part)) if part.isdecimal() else (1, part) for part in re.split(r"(\d+)", name) if part]


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise DydaError(f"{path} is not UTF-8 (byte {error.start})", "Save the file as UTF-8.") from None
    except OSError as error:
        raise DydaError(f"{path} cannot be read: {error.strerror}", "Name another file with -f.") from None
