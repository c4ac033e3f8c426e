"""The queue by source, in stretches: data messages with nothing between them that must be a run of its own.

    source a   ━━━━━━━━━ S ━━━━━ S S ━━━━━━━━━━━━        S: changes a schema, is held, or has broken
                  └ what the graph says of a stretch depends on the first message of each shape in it (dependencies)

A queue is planned again after each rewriting. Its stretches stay, so that a plan looks at as many things as there are
schema changes and shapes, however many messages wait.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator

from scheduler.footprint import Shape
from scheduler.needs import Entry

__all__ = ["Stretch", "Stretches"]


class Stretch:
    """Data messages of one source, in arrival order."""

    def __init__(self, number: int) -> None:
        self.number = number
        """That of its first message ever."""
        self._entries: dict[int, Entry] = {}
        self._shapes: dict[Shape, dict[int, None]] = {}
        """By shape, its messages."""

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, entry: Entry) -> None:
        self._entries[entry.number] = entry
        self._shapes.setdefault(entry.shape, {})[entry.number] = None

    def remove(self, entry: Entry) -> None:
        del self._entries[entry.number]
        alike = self._shapes[entry.shape]
        del alike[entry.number]
        if not alike:
            del self._shapes[entry.shape]

    def divided(self, concerned: Callable[[Entry], bool]) -> tuple[list[Entry], list[int], list[Entry]]:
        """Those that are `concerned`; the places of the first one of each shape among them; and the others."""
        every = list(self._entries.values())
        first = {shape: next(iter(numbers)) for shape, numbers in self._shapes.items()}
        left_out = {shape for shape, number in first.items() if not concerned(self._entries[number])}
        others: list[Entry] = []
        if left_out:
            others = [entry for entry in every if entry.shape in left_out]
            every = [entry for entry in every if entry.shape not in left_out]
        if len(first) - len(left_out) == 1:
            return every, [0], others
        numbers = [entry.number for entry in every]
        places = (bisect_left(numbers, number) for shape, number in first.items() if shape not in left_out)
        return every, sorted(places), others


class Stretches:
    """Those of all sources. Messages are added in arrival order and removed in any."""

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self._parts: dict[int, Stretch | Entry] = {}
        """By the number of the first message."""
        self._open: dict[str, Stretch] = {}
        """By source, the stretch that its next data message joins."""
        self._of: dict[int, Stretch] = {}
        """By number, the stretch that a message is in."""
        for entry in entries:
            self.add(entry)

    def __iter__(self) -> Iterator[Stretch | Entry]:
        """In the order of their first messages ever, so those of one source are in arrival order."""
        return iter(self._parts.values())

    def add(self, entry: Entry) -> None:
        if entry.alone:
            self._parts[entry.number] = entry
            self._open.pop(entry.source, None)
            return
        stretch = self._open.get(entry.source)
        if stretch is None:
            stretch = self._open[entry.source] = self._parts[entry.number] = Stretch(entry.number)
        stretch.add(entry)
        self._of[entry.number] = stretch

    def remove(self, entry: Entry) -> None:
        stretch = self._of.pop(entry.number, None)
        if stretch is None:
            del self._parts[entry.number]
            return
        stretch.remove(entry)
        if not stretch:
            del self._parts[stretch.number]
            if self._open.get(entry.source) is stretch:
                del self._open[entry.source]
