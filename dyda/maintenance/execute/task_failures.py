"""What cannot be read whole, here or by one of Spark's tasks, ends the unit as a failed lookup would."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dyda.errors import WarehouseUnreachable
from dyda.sources.reading.copy import ReadFailed
from dyda.sources.reading.scans import why_unread
from vm import WAREHOUSE

__all__ = ["scanning"]


@contextmanager
def scanning() -> Iterator[None]:
    """Around whatever scans."""
    try:
        yield
    except ReadFailed as error:
        if error.source == WAREHOUSE:
            raise WarehouseUnreachable(error.what) from None
        raise why_unread(error) from None
