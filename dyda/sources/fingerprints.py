"""What a fingerprint says besides being equal to another one or not.

It is a text that the source makes of a relation's schema. A relation that is not completely captured has one that
equals no other, not even its own next one: nothing that read such a relation can be installed.
"""

from __future__ import annotations

import uuid

__all__ = ["ABSENT", "is_uncaptured", "look", "uncaptured"]

ABSENT = "absent"
"""The fingerprint of a name that no relation has."""
_UNCAPTURED = "uncaptured"


def uncaptured(lasting: str) -> str:
    """The fingerprint of a relation that is not completely captured."""
    return f"{_UNCAPTURED} {lasting} {uuid.uuid4().hex}"


def is_uncaptured(printed: str) -> bool:
    return printed.startswith(_UNCAPTURED)


def look(printed: str | None) -> str | None:
    """A fingerprint for those who read no rows: it stays the same until the relation changes, captured or not."""
    return printed.rsplit(" ", 1)[0] if printed is not None and is_uncaptured(printed) else printed
