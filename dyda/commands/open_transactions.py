"""Waiting for open transactions at a source, for as long as the user allows, showing whose they are.

`apply` itself   waits in `Patience.wait`
the daemon       makes one attempt, maintains its views, and tries the request again (see requests.py)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from dyda.errors import CaptureBlocked, DydaError, SourceBusy

__all__ = ["Patience", "Progress", "Reminders", "given_up"]

Progress = Callable[[str, int, int], None]

FIRST, LONGEST = 10.0, 600.0
"""Seconds after which a line is repeated for the first time, and at most."""


class Patience:
    """Wait at most `limit` seconds from now on; None: no limit.

    `last`: there is no further attempt, so what was attached for nothing is released.
    """

    def __init__(self, progress: Progress, limit: float | None = None, *, last: bool = True) -> None:
        self.last = last
        self._progress = progress
        self._deadline = None if limit is None else time.monotonic() + limit

    def wait(self, blocked: CaptureBlocked) -> None:
        """Raise when the time is over, else report whose transaction is being waited for."""
        if self._deadline is not None and time.monotonic() >= self._deadline:
            raise blocked
        if blocked.blockers:
            self._progress(blocked.waiting, 0, 0)


@contextmanager
def given_up(undone: str) -> Iterator[None]:
    """A daemon tries a busy source again; a user's command gives up and says what was not done."""
    try:
        yield
    except CaptureBlocked as error:
        raise error.costing(undone) from None
    except SourceBusy as error:
        raise DydaError(f"{undone}: {error.what}", "Run the command again when the source is free.") from None


class Reminders:
    """A lasting condition: it is logged at once, and again at growing intervals."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._said: dict[str, tuple[float, float]] = {}

    def say(self, text: str, about: str | None = None) -> None:
        """`about`: the condition, if its text varies."""
        now = time.monotonic()
        due, pause = self._said.get(about or text, (now, FIRST))
        if now >= due:
            self._said[about or text] = (now + pause, min(pause * 3, LONGEST))
            self._say(text)

    def forget(self) -> bool:
        """The condition is over; whether anything had been logged."""
        said, self._said = bool(self._said), {}
        return said
