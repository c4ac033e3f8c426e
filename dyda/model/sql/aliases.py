"""Aliases that are distinct in a whole tree: what the author wrote stays, where it stands for the first time."""

from __future__ import annotations

from itertools import count

from dyda.model.sql.text import SqlText

__all__ = ["Aliases"]


class Aliases:
    """Gives aliases out. A new one is never a name that stands anywhere in the text."""

    def __init__(self, text: SqlText) -> None:
        self.written = {text.name(index) for index in range(len(text.words)) if text.is_name(index)}
        self.used: set[str] = set()

    def take(self, name: str) -> str:
        """`name` as it is written, or name_2, … if another occurrence has it already."""
        return self._use(name if name not in self.used else self._free(name, 2))

    def copied(self, name: str) -> str:
        """An alias that another view's text has, under which it does not clash here."""
        return self._use(name if name not in self.used | self.written else self._free(name, 2))

    def new(self, name: str) -> str:
        """name_1, name_2, … for what has no name in the text."""
        return self._use(self._free(name, 1))

    def _free(self, name: str, first: int) -> str:
        return next(one for n in count(first) if (one := f"{name}_{n}") not in self.used | self.written)

    def _use(self, name: str) -> str:
        self.used.add(name)
        return name
