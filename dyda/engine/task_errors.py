"""Errors that travel back to the driver: Spark's exceptions, and those of our own code inside Spark tasks.

A task's exception reaches the driver as text. Our own errors therefore travel as a line that `raise_again` can read
back into the same class with the same fields. Spark quotes values in its messages, and a value may be anything: the
line begins with a secret mark, and is read as data, never as a pickle.
"""

from __future__ import annotations

import base64
import importlib
import json
import re
import secrets
from typing import Any, NoReturn

from pyspark.errors import PythonException

from dyda.errors import EngineFailed, EvaluationFailed

__all__ = ["MARK", "encoded", "raise_again", "short_message"]

MARK = f"dyda-error-{secrets.token_hex(16)}:"
"""Of this driver alone; its tasks are given it."""


def encoded(error: Exception, mark: str) -> Exception:
    """What a task raises in place of one of our errors; other errors stay as they are."""
    kind = type(error)
    if not kind.__module__.startswith("dyda."):
        return error
    fields = {
        name: {"set": sorted(value)} if isinstance(value, frozenset) else value for name, value in vars(error).items()
    }
    state = json.dumps([kind.__module__, kind.__name__, list(error.args), fields], default=str)
    return RuntimeError(mark + base64.b64encode(state.encode()).decode("ascii") + ";")


def raise_again(error: Exception, view: str) -> NoReturn:
    """Raise what the user should see for an exception that Spark gave."""
    text = _text(error)
    found = re.search(re.escape(MARK) + r"([A-Za-z0-9+/=]+);", text)
    if found:
        raise _restored(*json.loads(base64.b64decode(found[1]))) from None
    if not _is_about_rows(error, text):
        # Blaming the rows here would set sound messages aside as poisoned.
        raise EngineFailed(short_message(error)) from None
    failure = EvaluationFailed(
        f"view {view}: Spark cannot evaluate it over these rows: {short_message(error)}",
        "Correct the row at the source, or make the view's expression hold for it (try_divide, try_cast, CASE).",
    )
    failure.view = view
    raise failure from None


def _is_about_rows(error: Exception, text: str) -> bool:
    """Whether the same rows would fail again: Spark gives such errors an SQLSTATE (22012 for a division by zero)."""
    if isinstance(error, PythonException) or "PythonException" in text:
        return False
    states = re.findall(r"SQLSTATE: (\w\w)\w\w\w", text)
    return bool(states) and not any(state in _INFRASTRUCTURE for state in states)


_INFRASTRUCTURE = frozenset({"08", "53", "57", "58", "HY", "HV", "KD"})
"""SQLSTATE classes of connections, resources, operators and file systems."""


def _text(error: BaseException) -> str:
    """All that the error and its causes say; asking a dead JVM for more must not hide it."""
    said: list[str] = []
    cause: BaseException | None = error
    while cause is not None and len(said) < 10:
        try:
            said.append(str(cause))
        except Exception:
            said.append(repr(cause.args))
        cause = getattr(cause, "_cause", None)
    return "\n".join(said)


def _restored(module: str, name: str, arguments: list[Any], fields: dict[str, Any]) -> Exception:
    """The same error in this process: its constructor may want other arguments than its message, so it is not run."""
    kind = getattr(importlib.import_module(module), name)
    error: Exception = kind.__new__(kind)
    Exception.__init__(error, *arguments)
    for field, value in fields.items():
        vars(error)[field] = frozenset(value["set"]) if isinstance(value, dict) else value
    return error


def short_message(error: Exception) -> str:
    """Spark's first sentence, without the query, the stack and the advice to switch ANSI mode off."""
    text = _text(error)
    if "Traceback (most recent call last)" in text:
        lines = [line.strip() for line in text.splitlines() if re.match(r"^\s*[\w.]+(Error|Exception): ", line)]
        if lines:
            return lines[-1]
    found = re.search(r"\[[A-Z][A-Z0-9_.]+\] [^\n]*", text)
    line = found[0] if found else (text.strip().splitlines() or [type(error).__name__])[0]
    line = re.sub(r"^\[[A-Z0-9_.]+\] ", "", line)
    line = re.sub(r"\s+If necessary set \S+ to \"false\" to bypass this error[^.]*\.", "", line)
    return re.sub(r" SQLSTATE: \w+.*$", "", line).strip()
