"""Messages without passwords, and without hinting at one.

A password stands in a message where a connection is written down: `user:HERE@host`, `password=HERE`. There it is
masked, however short it is. Anywhere else, what equals a short or plain password is a coincidence, and to mask it would
tell the password ("pass***ord", "role *** does not exist"): only one that no message has by chance is masked wherever
it is.

Imports the standard library alone, so that Spark can ship it to executors without DyDa.
"""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Iterable

__all__ = ["MASK", "masked"]

MASK = "***"

_IN_A_URL = re.compile(r"(?<=://)([^\s/@:]*):[^\s@]*(?:@[^\s@/]*)*@")
"""The user of a url; what follows it up to the last @ before the host is the password, encoded or not."""

_NAMED = re.compile(r"(password['\"]?\s*[=:]\s*)('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|[^\s&'\",;)]+)", re.IGNORECASE)
"""As a parameter of a url, in a connection string, in a dictionary that was printed."""


def masked(text: str, passwords: Iterable[str] = ()) -> str:
    """`text` without the password of any connection that is written in it, and without unmistakable `passwords`."""
    # The long ones first: one may be part of another.
    for secret in sorted({form for password in passwords for form in _forms(password)}, key=len, reverse=True):
        text = text.replace(secret, MASK)
    text = _IN_A_URL.sub(rf"\1:{MASK}@", text)
    return _NAMED.sub(rf"\1{MASK}", text)


def _forms(password: str) -> list[str]:
    """How an unmistakable password may be written: as it is meant, and percent-encoded."""
    return (
        [password, urllib.parse.quote(password, safe=""), urllib.parse.quote(password)]
        if _unmistakable(password)
        else []
    )


def _unmistakable(password: str) -> bool:
    """Whether no message has it by chance: neither a word nor a number, nor a few characters."""
    return len(password) >= 4 and bool(re.search(r"[^\W\d_]", password)) and bool(re.search(r"[\W\d_]", password))
