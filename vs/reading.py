"""Does a view's text mean something over the relations as they are now?"""

from __future__ import annotations

from collections.abc import Callable

from dyda.errors import DydaError
from dyda.model.parse import parse_view
from dyda.model.relation import Relation
from vs.judgement import Broken, Holds, Judgement

__all__ = ["read"]


def read(
    name: str, sql: str, resolve: Callable[[str, str | None, str], Relation], plain_numeric: str = "decimal(38,18)"
) -> Judgement:
    """Read the definition over what `resolve` finds: for a view that has no earlier form to follow."""
    try:
        return Holds(parse_view(name, sql, resolve, plain_numeric=plain_numeric))
    except DydaError as error:
        return Broken(error.what)
