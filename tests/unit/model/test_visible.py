"""Control characters are shown, never sent."""

from __future__ import annotations

import pytest

from dyda.model.printable import visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain, ü, 日本, 🦆", "plain, ü, 日本, 🦆"),
        ("no\u00a0break", "no\u00a0break"),
        ("\x1b[2J", r"\x1b[2J"),
        ("a\nb\r\tc\x00", r"a\nb\r\tc\x00"),
        ("\x7f\x9b31m", r"\x7f\x9b31m"),
        ("\u2028\u2029", r"\u2028\u2029"),
        ("\u202eabc\u2066\u200f\ufeff", r"\u202eabc\u2066\u200f\ufeff"),
        ("\U000e0041", r"\U000e0041"),
        ("می\u200cخواهم 👩\u200d🚀", "می\u200cخواهم 👩\u200d🚀"),
        (r"\x1b", r"\x1b"),
    ],
)
def test_control_characters_are_shown_as_escapes(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_some_are_meant() -> None:
    assert visible("a\n\tb\x1b", kept="\n\t") == "a\n\tb\\x1b"
