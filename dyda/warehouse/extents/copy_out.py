"""Results of a query as Arrow text columns, by COPY: no Python loop sees a row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from psycopg2 import sql

from dyda.rows import copy_out

if TYPE_CHECKING:
    from dyda.cursor import Cursor

__all__ = ["fetch_texts"]


def fetch_texts(cursor: Cursor, query: sql.Composable, columns: Sequence[str]) -> pa.Table:
    """The query's columns under these names. An unquoted nothing is NULL, a quoted one the empty text."""
    return copy_out(cursor, query.as_string(cursor), columns)
