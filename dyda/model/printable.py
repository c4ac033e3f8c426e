"""Text that others wrote, as it may be sent to a terminal or a log."""

from __future__ import annotations

import unicodedata

__all__ = ["unseen", "visible"]

_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_JOINERS = "\u200c\u200d"
"""Persian, Hindi and many a picture are spelled with them."""


def visible(text: str, kept: str = "") -> str:
    """`text` with every control character as an escape, except those `kept`.

    A row's value could otherwise move the operator's cursor, look like another line of the log, or turn it around.
    """
    return text.translate({ord(letter): repr(letter)[1:-1] for letter in unseen(text, kept)})


def unseen(text: str, kept: str = "") -> set[str]:
    """The characters of `text` that are not seen but do something: C0, DEL, C1, line separators, directions, …"""
    return {letter for letter in set(text) if unicodedata.category(letter) in _UNSEEN} - {*kept, *_JOINERS}
