"""The line of a view's text that an error of Spark is about."""

from __future__ import annotations

import re

__all__ = ["line_of"]

_WORD = re.compile(r"`(?:[^`]|``)*`(?:\s*\.\s*`(?:[^`]|``)*`)*|'(?:[^'\\]|\\.)*'|\w+|\S")


def line_of(text: str, fragment: str) -> int | None:
    """The line on which the fragment begins; None if it does not occur, or on several lines.

    Columns are qualified in the fragment and may not be in the text: only their own names count.
    """
    words = _WORD.findall(fragment)
    if not words:
        return None
    patterns = [
        rf"(?:[\w`]+\s*\.\s*)*`?{re.escape(_own_name(word))}`?" if word.startswith("`") else re.escape(word)
        for word in words
    ]
    first = r"(?<![\w`.])" if words[0][0].isalnum() or words[0][0] in "_`" else ""
    last = r"(?![\w`])" if words[-1][-1].isalnum() or words[-1][-1] in "_`" else ""
    found = re.compile(first + r"\s*".join(patterns) + last, re.IGNORECASE).finditer(text)
    lines = {text.count("\n", 0, match.start()) + 1 for match in found}
    return lines.pop() if len(lines) == 1 else None


def _own_name(written: str) -> str:
    return str(re.findall(r"`((?:[^`]|``)*)`", written)[-1]).replace("``", "`")
