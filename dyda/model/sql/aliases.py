"""Aliases that are distinct in a whole tree: the first occurrence keeps the alias that its author wrote."""

from __future__ import annotations

from itertools import count

from dyda.model.sql.text import SqlText

__all__ = ["Aliases"]


class Aliases:
    """Assigns aliases. A new one is never a name that occurs anywhere in the text."""

    def __init__(self, text: SqlText) -> None:
        self.written = {text.name(index) for index in range(len(text.words)) if text.is_name(index)}
        self.used: set[str] = set()

    def take(self, name: str) -> str:
        """`name` as written, or name_2, … if another occurrence already has it."""
        return self._use(name if name not in self.used else self._free(name, 2))

    def copied(self, name: str) -> str:
        """An alias from another view's text, changed if it clashes here."""
        return self._use(name if name not in self.used | self.written else self._free(name, 2))

    def new(self, name: str) -> str:
        """name_1, name_2, … for what has no name in the text."""
        return self._use(self._free(name, 1))

    def _free(self, name: str, first: int) -> str:
        return next(free for n in count(first) if (free := f"{name}_{n}") not in self.used | self.written)

    def _use(self, name: str) -> str:
        self.used.add(name)
        return name
