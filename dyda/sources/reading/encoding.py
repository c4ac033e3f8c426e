"""Texts that a source's own encoding can represent. A key with any other character equals nothing there, and no table
has a name with one; sending either would only fail.

Only PostgreSQL knows what its conversions accept (not even Python's codecs of the same name agree for all of them), so
it is asked: about characters, of which there are fewer than texts, and about each of them once.
"""

from __future__ import annotations

import threading
from collections.abc import Collection
from typing import TYPE_CHECKING

import psycopg2

from dyda.cursor import Cursor

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Repertoire"]


class Repertoire:
    """Which characters one source's database has."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._known: dict[str, bool] = {}

    def holds(self, cursor: Cursor, texts: Collection[str]) -> list[bool]:
        """For each text whether the database can hold it. The cursor's transaction must be open."""
        if cursor.connection.get_parameter_status("server_encoding") == "UTF8":
            return [True] * len(texts)
        found = {text: frozenset(character for character in text if ord(character) > 127) for text in texts}
        with self._guard:
            new = frozenset().union(*found.values()) - self._known.keys()
            lacking = _lacking(cursor, sorted(new))
            self._known |= {character: character not in lacking for character in new}
            return [all(self._known[character] for character in found[text]) for text in texts]

    def possible(self, cursor: Cursor, keys: pa.Table) -> pa.Table:
        """The tuples of texts that the database can hold."""
        import pyarrow as pa
        import pyarrow.compute as pc

        for name in keys.column_names:
            column = keys.column(name)
            odd = column.filter(pc.invert(pc.string_is_ascii(column))).unique()
            texts = odd.to_pylist()
            lacking = [text for text, held in zip(texts, self.holds(cursor, texts), strict=True) if not held]
            keys = keys.filter(pc.invert(pc.is_in(column, pa.array(lacking, odd.type))))
        return keys


def _lacking(cursor: Cursor, characters: list[str]) -> set[str]:
    """Those of the characters that the server cannot convert, by halving."""
    if not characters:
        return set()
    cursor.execute("SAVEPOINT asking")
    try:
        cursor.execute("SELECT pg_catalog.length(%s)", ("".join(characters),))
    except (psycopg2.errors.UntranslatableCharacter, psycopg2.errors.CharacterNotInRepertoire):
        cursor.execute("ROLLBACK TO SAVEPOINT asking")
        if len(characters) == 1:
            return set(characters)
        middle = len(characters) // 2
        return _lacking(cursor, characters[:middle]) | _lacking(cursor, characters[middle:])
    return set()
