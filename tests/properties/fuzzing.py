"""What the fuzz tests share: texts to start from, what is done to them, and the property that all of them state.

Whatever is put in, only DyDa's own errors come out, in time, and each is one message that can be printed.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TypeVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from dyda.errors import DydaError

FIXTURES = Path(__file__).parents[2] / "fixtures"

LONGEST_MESSAGE = 4000
"""Characters of an error that a person still reads; a value of a megabyte must not be in it."""

Value = TypeVar("Value")


class TooSlow(AssertionError):
    """An example took longer than it may: for a user, a hang."""


def profile(examples: int) -> settings:
    """So many examples, always the same ones; DYDA_EXAMPLES=n draws n others each time."""
    return settings(
        max_examples=int(os.environ.get("DYDA_EXAMPLES", examples)),
        derandomize="DYDA_EXAMPLES" not in os.environ,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )


@contextmanager
def in_time(seconds: float = 20.0) -> Iterator[None]:
    """Raise TooSlow inside the block if it does not end in time."""

    def ring(number: int, frame: FrameType | None) -> None:
        raise TooSlow(f"it did not end within {seconds} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def answer_or_refusal(call: Callable[[], Value]) -> Value | DydaError:
    """What the call returns, or the error of ours that it ends with. Any other error is the test's failure."""
    try:
        with in_time():
            return call()
    except DydaError as error:
        require_readable(error)
        return error


def require_readable(error: DydaError) -> None:
    """One message: not empty, not endless, printable, and no traceback."""
    message = str(error)
    assert error.what.strip(), f"{type(error).__name__} says nothing"
    assert len(message) <= LONGEST_MESSAGE, f"{len(message)} characters: {message[:300]}…"
    assert "Traceback" not in message
    message.encode("utf-8")


def view_texts() -> list[str]:
    """Every view of the fixtures, sound ones and refused ones."""
    found = [path.read_text(encoding="utf-8") for path in sorted((FIXTURES / "tpch").glob("*.sql"))]
    found += [path.read_text(encoding="utf-8") for path in sorted((FIXTURES / "travel" / "views").glob("*.sql"))]
    for path in sorted((FIXTURES / "trees").glob("*.sql")):
        cases = re.split(r"^-->.*\n", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
        found += [case.strip().rstrip(";") for case in cases if case.strip()]
    for path in sorted((FIXTURES / "refusals").glob("*.sql")):
        for case in re.split(r"^--# .*\n", path.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
            found.append(re.split(r"^--> ", case, maxsplit=1, flags=re.MULTILINE)[0].removesuffix("\n"))
    for path in sorted((FIXTURES / "vs").glob("*.sql")):
        match = re.search(r"^--# view\n(.*?)(?=^--# )", path.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
        found += [match[1].strip()] if match else []
    return found


def ddl_texts() -> list[str]:
    """The DDL of the fixtures."""
    found = []
    for path in sorted((FIXTURES / "vs").glob("*.sql")):
        match = re.search(r"^--# change\n(.*?)(?=^--# )", path.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
        found += [match[1].strip()] if match else []
    return found


PIECES = re.compile(r"--[^\n]*\n?|/\*.*?\*/|'(?:[^']|'')*'|`[^`]*`|\"[^\"]*\"|\w+|\s+|.", re.DOTALL)
"""Words, literals, comments and signs: roughly what a mutation of meaning moves as one."""


@st.composite
def mutated(draw: st.DrawFn, texts: Sequence[str], more: Sequence[str] = ()) -> str:
    """One of the texts after a few accidents: words lost, doubled, exchanged, foreign ones put in, the end cut off."""
    pieces = PIECES.findall(draw(st.sampled_from(texts)))
    # One of the refused views is an empty text: nothing can be taken from it.
    words = [*more, *PIECES.findall(draw(st.sampled_from([text for text in texts if text])))]
    for _ in range(draw(st.integers(1, 6))):
        if not pieces:
            break
        at = draw(st.integers(0, len(pieces) - 1))
        other = draw(st.integers(0, len(pieces) - 1))
        low, high = min(at, other), min(max(at, other), min(at, other) + 30)
        match draw(st.integers(0, 7)):
            case 0:
                del pieces[at]
            case 1:
                pieces.insert(other, pieces[at])
            case 2:
                pieces[at], pieces[other] = pieces[other], pieces[at]
            case 3:
                pieces.insert(at, draw(st.sampled_from(words)))
            case 4:
                pieces[at] = draw(st.sampled_from(words))
            case 5:
                del pieces[low:high]
            case 6:
                pieces[other:other] = pieces[low:high]
            case _:
                pieces[at] = draw(ODD_TEXT)
    return "".join(pieces)


ODD_TEXT = st.one_of(
    st.text(max_size=8),
    st.sampled_from(
        [
            "\x00",
            "\ufeff",
            "\u2028",
            "\x85",
            "\u00a0",
            "\x1b[31m",
            "\u202e",
            "\x7f",
            "é",
            "e\u0301",
            "İ",
            "ß",
            "\U0001f600",
            "²",
            "٣",
            "Ⅷ",
        ]
    ),
    st.sampled_from(
        [
            "'",
            '"',
            "`",
            "$$",
            "/*",
            "*/",
            "--",
            "\\",
            ";",
            "(",
            ")",
            "[",
            "]",
            "{",
            "}",
            "${x}",
            "%s",
            "?",
            ":a",
            "@",
            "::",
        ]
    ),
    st.sampled_from(
        ["1e400", "0x1F", "1L", "1BD", "9" * 60, "-0", ".5", "1.", "1e", "X'0", "b'1'", "U&'\\0041'", "e'\\n'"]
    ),
)
