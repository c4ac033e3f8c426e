"""A fault: it strikes, says what it makes unreachable and which words `dyda status` must have for it, and heals.

`lost` are the sources whose views may wait; every other view must go on. ALL means that nothing can go on. `words` is a
regular expression that `dyda status` must show; empty where there is nothing left to say once the daemon has noticed.
What cannot be done on this machine says so in `why_not`.
"""

from __future__ import annotations

import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar

from tests.torture.daemon import TortureFailed
from tests.torture.history import History
from tests.torture.places import Place, Places

__all__ = ["ALL", "AtASource", "Fault", "World", "until"]

ALL = frozenset({"*"})


class World:
    """What faults strike at."""

    def __init__(self, places: Places, history: History, seed: int, old: str) -> None:
        self.places = places
        self.history = history
        self.random = random.Random(f"{seed} faults")

        self.old = old
        """The source whose transaction counter is about to wrap."""
        self.spared: set[str] = set()
        """Sources whose server must not be killed now: a session there has yet to do something."""

    def source(self, deadly: bool = False) -> Place:
        names = set(self.places.sources) - (self.spared if deadly else set())
        return self.places.sources[self.random.choice(sorted(names))]


class Fault(ABC):
    """One kind; an object is one stroke of it."""

    kind: ClassVar[str]
    lost: frozenset[str] = frozenset()
    words: str = ""
    seconds: float = 2.0
    """How long it lasts at least."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.places = world.places
        self.random = world.random

    def __str__(self) -> str:
        return self.kind

    @property
    def why_not(self) -> str:
        """Why it cannot be done on this machine; empty if it can."""
        return ""

    @abstractmethod
    def strike(self) -> None:
        """What happens."""

    def heal(self) -> None:  # noqa: B027 (most kinds heal by themselves)
        """Nothing that an operator of DyDa would do: only what was taken away comes back."""


class AtASource(Fault):
    deadly = False

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.place = world.source(self.deadly)

    def __str__(self) -> str:
        return f"{self.kind}: {self.place.name}"


def until(done: Callable[[], bool], otherwise: str, seconds: float = 180) -> None:
    """Wait for a condition; it never comes: the run has failed."""
    deadline = time.monotonic() + seconds
    while not done():
        if time.monotonic() > deadline:
            raise TortureFailed(f"{otherwise} (waited {seconds:.0f} s)")
        time.sleep(0.1)
