"""Notifications beside the units: a thread for each target, so that none waits for another, nor a unit for any.

    event ──▶ catalog ──▶ thread of the target ──▶ webhook or command ──▶ how far it has got: catalog

What is sent is read from the catalog, so a daemon that is killed forgets nothing: an event is sent at least once, in
order, and again only if the daemon ended before that was written down. The event's `id` tells. Whatever goes wrong here
is tried again: nobody else would begin with it again, because nobody waits for it.
"""

from __future__ import annotations

import datetime
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from dyda.commands.notify import NotDelivered, deliver, payload_of, target_of
from dyda.errors import DydaError, Fenced
from dyda.settings import NotifyEntry
from dyda.warehouse import EventRecord, Warehouse
from dyda.warehouse.writer import Writer

__all__ = ["Notifier"]

SHORTEST, LONGEST = 1.0, 300.0
"""Seconds between two attempts: twice as long each time."""

GIVEN_UP = datetime.timedelta(days=1)
"""After so long, an event that nobody took is passed over."""

AT_ONCE = 100
"""Events read at once."""

LAST_WORDS = 5.0
"""Seconds that the daemon's end waits for all that is still to be sent; the next daemon sends the rest."""


class Notifier:
    """Tells the targets until it is closed."""

    def __init__(
        self,
        entries: Sequence[NotifyEntry],
        warehouse: Warehouse,
        writer: Writer,
        folder: Path,
        project: str | None,
        log: Callable[[str], None],
    ) -> None:
        names = [target_of(entry) for entry in entries]
        # Two that are one place, with filters of their own, get on at their own paces.
        names = [f"{name}/{before}" if (before := names[:n].count(name)) else name for n, name in enumerate(names)]
        self._targets = [
            _Target(entry, name, warehouse, writer, folder, project, log)
            for entry, name in zip(entries, names, strict=True)
        ]

    def happened(self, event: EventRecord) -> None:
        """Wakes those that are told of it."""
        for target in self._targets:
            target.happened(event)

    def close(self) -> None:
        for target in self._targets:
            target.closing.set()
            target.wake.set()
        end = time.monotonic() + LAST_WORDS
        for target in self._targets:
            target.thread.join(max(0.0, end - time.monotonic()))


class _Target:
    """One webhook or command."""

    def __init__(
        self,
        entry: NotifyEntry,
        name: str,
        warehouse: Warehouse,
        writer: Writer,
        folder: Path,
        project: str | None,
        log: Callable[[str], None],
    ) -> None:
        self._entry = entry
        self._warehouse = warehouse
        self._writer = writer
        self._folder = folder
        self._project = project
        self._log = log
        self._name = name
        told = warehouse.notified(self._name)
        self._seen = warehouse.newest_event() if told is None else told
        if told is None:
            writer.note_notified(self._name, self._seen)  # what was before nobody has asked for
        self._failing = False
        self.closing = threading.Event()
        self.wake = threading.Event()
        self.wake.set()  # an earlier daemon may have left something
        self.thread = threading.Thread(target=self._run, name=f"notify {entry.shown}", daemon=True)
        self.thread.start()

    def happened(self, event: EventRecord) -> None:
        if self._entry.concerns(event.kind, event.view):
            self.wake.set()

    def _run(self) -> None:
        failures, pause = 0, SHORTEST
        while True:
            self.wake.wait()
            self.wake.clear()
            last = self.closing.is_set()  # read first: whatever happened before that is sent now
            try:
                if not self._send_all() or last:
                    return
                if failures > 1:
                    self._log(f"notifications to {self._entry.shown} go on")
                failures, pause = 0, SHORTEST
            except Fenced:
                return  # another daemon begins where this one was
            except DydaError as error:
                failures += 1
                if failures == 2:  # the daemon has not begun again meanwhile, as it does where all is lost
                    self._log(f"notifications to {self._entry.shown} wait: {error.in_one_line}")
                if last or self.closing.wait(pause):
                    return
                pause = min(2 * pause, LONGEST)
                self.wake.set()

    def _send_all(self) -> bool:
        """Whatever the target was not told of yet; False if the daemon ends before that."""
        while True:
            newest = self._warehouse.newest_event()
            found = self._warehouse.events(after=self._seen, kinds=self._entry.kinds, limit=AT_ONCE)
            for event in found:
                if self._entry.concerns(event.kind, event.view):
                    if not self._send(event):
                        return False
                    self._seen = event.id  # even if it cannot be written down now: it is not sent again
                    self._writer.note_notified(self._name, event.id)
                self._seen = event.id
            if len(found) < AT_ONCE:
                self._seen = max(self._seen, newest)
                return True

    def _send(self, event: EventRecord) -> bool:
        """Until the target takes it, or it is too old; False if the daemon ends before that."""
        pause = SHORTEST
        while True:
            try:
                deliver(self._entry, payload_of(event, self._project), self._folder)
                if self._failing:
                    self._log(f"notifications to {self._entry.shown} arrive again")
                self._failing = False
                return True
            except NotDelivered as error:
                if not self._failing:
                    self._log(f"a notification to {self._entry.shown} did not arrive: {error.what}; it is tried again")
                self._failing = True
            if datetime.datetime.now(datetime.UTC) - event.at > GIVEN_UP:
                self._log(f"event {event.id} ({event.kind}) is a day old: {self._entry.shown} is not told of it")
                return True
            if self.closing.wait(pause):
                return False
            pause = min(2 * pause, LONGEST)
