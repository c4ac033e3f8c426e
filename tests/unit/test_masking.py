"""No message shows a password, and none is given away by what was masked."""

from __future__ import annotations

import psycopg2
import pytest

from dyda import passwords
from dyda.masking import masked
from dyda.passwords import check_url, hidden
from dyda.sources.reading.session import first_line
from dyda.warehouse.connection import without_password

REFUSED = 'connection to server at "db", port 5432 failed: FATAL:  password authentication failed for user "ann"'
"""What libpq says; it never says the password."""

PLAIN = ["w", "a", "ss", "pass", "word", "password", "5432", "ann", "server", "authentication"]
"""Passwords that are part of that sentence."""


@pytest.mark.parametrize("password", PLAIN)
def test_a_plain_password_is_not_told_by_its_own_mask(monkeypatch: pytest.MonkeyPatch, password: str) -> None:
    monkeypatch.setattr(passwords, "_known", set())
    url = f"postgresql://ann:{password}@db/shop"
    check_url(url, "sources.shop", {})
    for said in (
        without_password(REFUSED, url),
        first_line(psycopg2.OperationalError(REFUSED), url),
        hidden(REFUSED),
    ):
        assert said == REFUSED


@pytest.mark.parametrize("password", [*PLAIN, "s3cr3t", "p%40ss", "x@y@z", "a/b", "?"])
def test_where_a_connection_is_written_down_every_password_is_masked(password: str) -> None:
    url = f"postgresql://ann:{password}@db/shop"
    assert masked(f"cannot read {url}, it is wrong") == "cannot read postgresql://ann:***@db/shop, it is wrong"
    for written, shown in (
        (f"postgresql://ann@db/shop?sslmode=require&password={password}&x=1", "&password=***&x=1"),
        (f"host=db password={password} user=ann", "password=*** user=ann"),
        (f"host=db sslpassword = '{password}' user=ann", "sslpassword = *** user=ann"),
        (f"{{'user': 'ann', 'password': '{password}'}}", "'password': ***}"),
    ):
        assert shown in masked(f"bad: {written}"), written
    again = "postgresql://ann@db:5432/shop?host=/tmp/a@b"
    assert masked(again) == again, "there is none"


@pytest.mark.parametrize("password", ["s3cr3t", "p@ss w/rd", "hush!hush"])
def test_one_that_is_nowhere_by_chance_is_masked_everywhere(monkeypatch: pytest.MonkeyPatch, password: str) -> None:
    monkeypatch.setattr(passwords, "_known", {password})
    encoded = password.replace("@", "%40").replace(" ", "%20").replace("/", "%2F").replace("!", "%21")
    assert hidden(f"it is {password}, or {encoded}.") == "it is ***, or ***."
