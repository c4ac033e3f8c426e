"""Messages without passwords, and without hints at one.

In connection strings (`user:HERE@host`, `password=HERE`) every password is masked. Elsewhere, text that equals a short
or simple password is a coincidence, and masking it would reveal the password ("pass***ord", "role *** does not exist"):
there only passwords are masked that no message contains by chance.

Imports only the standard library, so that Spark can ship it to executors without DyDa.
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
    """`text` without the passwords of connection strings in it, and without unmistakable `passwords`."""
    # Long ones first: one may be part of another.
    for secret in sorted({form for password in passwords for form in _forms(password)}, key=len, reverse=True):
        text = text.replace(secret, MASK)
    text = _IN_A_URL.sub(rf"\1:{MASK}@", text)
    return _NAMED.sub(rf"\1{MASK}", text)


def _forms(password: str) -> list[str]:
    """How an unmistakable password may be written: as it is, and percent-encoded."""
    encoded = [urllib.parse.quote(password, safe=""), urllib.parse.quote(password)]
    return [password, *encoded] if _unmistakable(password) else []


def _unmistakable(password: str) -> bool:
    """Whether no message contains it by chance: at least four characters, and neither a word nor a number."""
    return len(password) >= 4 and bool(re.search(r"[^\W\d_]", password)) and bool(re.search(r"[\W\d_]", password))
