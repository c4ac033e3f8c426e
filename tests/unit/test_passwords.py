"""Where passwords may come from, and what is refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import psycopg2.extensions
import pytest

from dyda.errors import ConfigurationError
from dyda.passwords import is_written_in
from dyda.project import Project

SECRET = "s3cr3t"


def project(folder: Path, url: str, more: str = "", *, mode: int = 0o644, **environment: str) -> Project:
    text = f'[warehouse]\nurl = "embedded"\n[sources.crm]\nurl = {json.dumps(url)}\n{more}\n'
    (folder / "dyda.toml").write_text(text)
    (folder / "dyda.toml").chmod(mode)
    return Project.load(folder, environment)


def refused(folder: Path, url: str, more: str = "", *, mode: int = 0o644, **environment: str) -> str:
    with pytest.raises(ConfigurationError) as caught:
        project(folder, url, more, mode=mode, **environment)
    assert SECRET not in str(caught.value)
    return str(caught.value)


def password(found: Project) -> str | None:
    parts: dict[str, str] = psycopg2.extensions.parse_dsn(found.settings.sources["crm"].url)
    return parts.get("password")


@pytest.mark.parametrize(
    ("url", "written"),
    [
        ("postgresql://ann:s3cr3t@h/db", True),
        ("postgresql://ann:s3?cr3t@h/db", True),
        ("postgresql://ann:s3${REST}@h/db", True),
        ("postgresql://ann@h/db?sslmode=require&password=s3cr3t", True),
        ("postgresql://ann@h/db?sslpassword=s3cr3t", True),
        ("postgresql://ann:${PASSWORD}@h/db", False),
        ("postgresql://ann@h/db?password=${PASSWORD}", False),
        ("postgresql://ann@h:5432,i:5433/db", False),
        ("postgresql://ann:@h/db?passfile=/x", False),
        ("postgresql:///db?host=/tmp/a:b@c", False),
        ("${DATABASE_URL}", False),
        ("embedded", False),
    ],
)
def test_a_password_that_is_spelt_out_is_recognized(url: str, written: bool) -> None:
    assert is_written_in(url) is written


@pytest.mark.parametrize("url", ["postgresql://ann:s3cr3t@h/db", "postgresql://ann@h/db?password=s3cr3t"])
def test_a_password_in_dyda_toml_needs_a_file_that_nobody_else_reads(tmp_path: Path, url: str) -> None:
    for mode in (0o644, 0o640, 0o604, 0o660):
        said = refused(tmp_path, url, mode=mode)
        assert "[sources.crm]" in said
        assert f"chmod 600 {tmp_path / 'dyda.toml'}" in said
    assert password(project(tmp_path, url, mode=0o600)) == SECRET


@pytest.mark.parametrize("value", ["simple", "p@ss/w:rd?#", "100%", "a b\\'\"", "päss", "%41", "${X}", "$&"])
def test_a_variable_may_hold_any_password(tmp_path: Path, value: str) -> None:
    meant = "A" if value == "%41" else value  # what is percent-encoded already stays so
    for url in ("postgresql://ann:${PW}@h/db", "postgresql://ann@h/db?password=${PW}&sslmode=require"):
        found = project(tmp_path, url, PW=value)
        assert password(found) == meant
        assert psycopg2.extensions.parse_dsn(found.settings.sources["crm"].url)["host"] == "h"


def test_a_variable_may_hold_a_whole_url(tmp_path: Path) -> None:
    found = project(tmp_path, "${URL}", URL="postgresql://ann:p%40ss@h/db")
    assert password(found) == "p@ss"


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ann:x@s3cr3t@h/db",
        "postgresql://ann:x/s3cr3t@h/db",
        "postgresql://ann:s3cr3t%zz@h/db",
        "postgresql://ann@h/db?pasword=s3cr3t",
        "postgresql://[s3cr3t/db",
        "postgresql://ann:s3cr3t\x00@h/db",
    ],
)
def test_a_url_that_libpq_misreads_is_refused_without_showing_it(tmp_path: Path, url: str) -> None:
    assert "[sources.crm]: url is not valid" in refused(tmp_path, "${URL}", URL=url)


def test_a_password_file_of_ones_own(tmp_path: Path) -> None:
    file = tmp_path / "it's secret"
    file.write_text("p@ss w/rd\n")
    more = f"password_file = {json.dumps(file.name)}"
    for mode in (0o644, 0o640, 0o604):
        file.chmod(mode)
        said = refused(tmp_path, "postgresql://ann@h/db", more)
        assert str(file) in said
        assert f"chmod 600 '{tmp_path}/it'\\''s secret'" in said
    for mode in (0o600, 0o400):
        file.chmod(mode)
        assert password(project(tmp_path, "postgresql://ann@h/db", more)) == "p@ss w/rd"
        assert password(project(tmp_path, "postgresql://ann@h/db?sslmode=require", more)) == "p@ss w/rd"
    assert "a password too" in refused(tmp_path, "postgresql://ann:${PW}@h/db", more, PW=SECRET)
    file.chmod(0o600)
    file.write_text("")
    assert "exactly one line" in refused(tmp_path, "postgresql://ann@h/db", more)
    file.unlink()
    assert str(file) in refused(tmp_path, "postgresql://ann@h/db", more)
    assert "is not needed" in refused(tmp_path, "embedded", more)


def test_libpq_s_password_file_must_be_safe_where_it_is_named(tmp_path: Path) -> None:
    file = tmp_path / "passfile"
    file.write_text("*:*:*:*:s3cr3t\n")
    file.chmod(0o644)
    cases: list[tuple[str, dict[str, Any]]] = [
        (f"postgresql://ann@h/db?passfile={file}", {}),
        ("postgresql://ann@h/db", {"PGPASSFILE": str(file)}),
    ]
    for url, environment in cases:
        file.chmod(0o644)
        assert f"chmod 600 {file}" in refused(tmp_path, url, **environment)
        file.chmod(0o600)
        assert password(project(tmp_path, url, **environment)) is None, "it is libpq that reads it"
