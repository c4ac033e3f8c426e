"""Text that others wrote, made safe for a terminal or a log."""

from __future__ import annotations

import unicodedata

__all__ = ["unseen", "visible"]

_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_JOINERS = "\u200c\u200d"
"""Needed to spell Persian, Hindi and many emoji."""


def visible(text: str, kept: str = "") -> str:
    """`text` with every control character as an escape, except those `kept`.

    A row's value could otherwise move the operator's cursor, imitate another log line, or reverse the direction.
    """
    return text.translate({ord(letter): repr(letter)[1:-1] for letter in unseen(text, kept)})


def unseen(text: str, kept: str = "") -> set[str]:
    """The invisible characters of `text` that have an effect: C0, DEL, C1, line separators, directions, …"""
    return {letter for letter in set(text) if unicodedata.category(letter) in _UNSEEN} - {*kept, *_JOINERS}
