"""Waiting for transactions that others have open at a source: as long as the user lets it, saying for whom.

apply alone      waits in `Patience.wait`, which shows whom it waits for
by the daemon    one attempt; then views are maintained, and the request is tried again (see requests.py)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from dyda.errors import CaptureBlocked, DydaError, SourceBusy

__all__ = ["Patience", "Progress", "Reminders", "given_up"]

Progress = Callable[[str, int, int], None]

FIRST, LONGEST = 10.0, 600.0
"""Seconds after which a line is said again for the first time, and at the most."""


class Patience:
    """`limit` seconds for what stands in the way of capture, from now on; None: no limit.

    `last`: nobody tries again afterwards, so what was attached for nothing is taken away.
    """

    def __init__(self, progress: Progress, limit: float | None = None, *, last: bool = True) -> None:
        self.last = last
        self._progress = progress
        self._deadline = None if limit is None else time.monotonic() + limit

    def wait(self, blocked: CaptureBlocked) -> None:
        """Raises when the time is over, else says whom the next attempt waits for."""
        if self._deadline is not None and time.monotonic() >= self._deadline:
            raise blocked
        if blocked.blockers:
            self._progress(blocked.waiting, 0, 0)


@contextmanager
def given_up(undone: str) -> Iterator[None]:
    """A source that is busy is tried again by the daemon, by itself; what a user asked for is not."""
    try:
        yield
    except CaptureBlocked as error:
        raise error.costing(undone) from None
    except SourceBusy as error:
        raise DydaError(f"{undone}: {error.what}", "Run the command again when the source is free.") from None


class Reminders:
    """A line that holds for longer: it is said at once, and again at growing intervals, not whenever it is found."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._said: dict[str, tuple[float, float]] = {}

    def say(self, text: str, about: str | None = None) -> None:
        """`about`: what is the same although it is said in other words."""
        now = time.monotonic()
        due, pause = self._said.get(about or text, (now, FIRST))
        if now >= due:
            self._said[about or text] = (now + pause, min(pause * 3, LONGEST))
            self._say(text)

    def forget(self) -> bool:
        """It holds no longer; whether anything had been said."""
        said, self._said = bool(self._said), {}
        return said
