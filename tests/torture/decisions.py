"""The operator of a run: leaves approvals open for a while, then approves or rejects; holds messages and releases them.

Decisions are made with the command line, as a process of its own, whether a daemon runs or not. One that fails because
a server is away, or because the message has gone meanwhile, is made another time or not at all.
"""

from __future__ import annotations

import contextlib
import random
import subprocess
import threading
import time
from collections import Counter, deque

import psycopg2

from tests.torture.places import Places, session

__all__ = ["Operator"]

OPEN = (1.0, 12.0)
"""Seconds, at least and at most, that a message waits for its decision."""
HELD_AT_ONCE = 2
PATIENCE = 90.0
"""Seconds that a decision may take: a daemon that is frozen does not answer."""


class Operator(threading.Thread):
    """Decides until `end`. Between `clear` and `go_on` nothing is held any more, and all is decided at once."""

    def __init__(self, places: Places, seed: int, holds: float = 0.15) -> None:
        super().__init__(name="operator", daemon=True)
        self.places = places
        self.holds = holds
        self.random = random.Random(f"{seed} operator")
        self.decisions: Counter[str] = Counter()
        self.told: deque[str] = deque(maxlen=20)
        """The last decisions, with what became of them."""
        self.failure: BaseException | None = None
        self._due: dict[tuple[int, str], float] = {}
        self._clearing = threading.Event()
        self._ending = threading.Event()

    def clear(self) -> None:
        self._clearing.set()

    def go_on(self) -> None:
        self._clearing.clear()

    def end(self) -> None:
        self._ending.set()

    def run(self) -> None:
        try:
            while not self._ending.wait(0.2 if self._clearing.is_set() else 1.0):
                with contextlib.suppress(psycopg2.OperationalError, psycopg2.InterfaceError):
                    self._look()
        except BaseException as error:
            self.failure = error

    def _look(self) -> None:
        with session(self.places.warehouse.url) as cursor:
            cursor.execute("SELECT id, state FROM dyda.message ORDER BY id")
            states = cursor.fetchall()
        open_ones = [(number, state) for number, state in states if state in ("held", "approval")]
        self._due = {one: self._due.get(one) or time.monotonic() + self.random.uniform(*OPEN) for one in open_ones}
        for number, state in open_ones:
            if self._ending.is_set():
                return
            if self._clearing.is_set() or time.monotonic() >= self._due[number, state]:
                rejected = self.random.random() < 0.3
                self._decide("release" if state == "held" else "reject" if rejected else "approve", number)
        waiting = [number for number, state in states if state == "waiting"]
        held = sum(state == "held" for _, state in open_ones)
        if waiting and held < HELD_AT_ONCE and not self._clearing.is_set() and self.random.random() < self.holds:
            self._decide("hold", self.random.choice(waiting))

    def _decide(self, verb: str, number: int) -> None:
        try:
            done = self.places.run("pending", verb, str(number), check=False, timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            self.decisions["no answer"] += 1
            self.told.append(f"{verb} {number}: no answer")
            return
        self.told.append(f"{verb} {number}: {(done.stdout + done.stderr).strip()}")
        self.decisions[verb if done.returncode == 0 else "not possible"] += 1
