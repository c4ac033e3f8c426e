"""Something that is done in a thread of its own, beside the units, into tables that no view has yet."""

from __future__ import annotations

import math
import threading
import time
from abc import ABC, abstractmethod
from contextlib import AbstractContextManager, nullcontext

from dyda.open_project import OpenProject
from dyda.warehouse import ViewChange
from dyda.warehouse.extents.lockless_staging import Stagings

__all__ = ["Worker"]

GIVEN_UP = 30.0
"""Seconds for which a thread that was cancelled is waited for: it has nothing to lose."""


class Worker(ABC):
    """The session that guards its tables stays open until `close`. `change` installs what it has made, None: there is
    nothing; or `error` is why it has not made it."""

    change: ViewChange | None = None
    error: BaseException | None = None

    def __init__(self, opened: OpenProject, name: str) -> None:
        self.opened = opened
        self.ended_at = math.inf
        """By `time.monotonic`; from then on there is a result, or an error."""
        self._stagings: Stagings | None = None
        self.given_up = threading.Event()
        self._ready, self._released = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"dyda {name}", daemon=True)

    @abstractmethod
    def made(self, stagings: Stagings) -> ViewChange | None:
        """What is to be installed."""

    def holding(self) -> AbstractContextManager[object]:
        """What else is closed at the end."""
        return nullcontext()

    @property
    def ended(self) -> bool:
        """Whether there is a result, or an error."""
        return self._ready.is_set()

    def start(self) -> None:
        self._thread.start()

    def wait(self, seconds: float) -> None:
        """Until it has ended, or for so long."""
        self._ready.wait(seconds)

    def cancel(self) -> None:
        """Give it up; it ends soon."""
        self.given_up.set()
        self.opened.engine.cancel(self._thread.name)
        if self._stagings is not None:
            self._stagings.cancel()

    def close(self) -> None:
        """The session that guards its tables ends: what was not installed is garbage."""
        if not self.ended:
            self.cancel()
        self._released.set()
        self._thread.join(GIVEN_UP)

    def _run(self) -> None:
        try:
            with self.holding(), self.opened.warehouse.stagings() as self._stagings:
                self.change = self.made(self._stagings)
                self._end()
                self._released.wait()
        except BaseException as error:
            self.error = error
        finally:
            self._end()

    def _end(self) -> None:
        self.ended_at = min(self.ended_at, time.monotonic())
        self._ready.set()
