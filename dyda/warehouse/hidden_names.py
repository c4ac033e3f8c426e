"""The names of hidden views: `v/next` is what a lane has built for view `v`, until it is shown."""

from __future__ import annotations

__all__ = ["NEXT", "hidden_name", "is_hidden", "visible_name"]

NEXT = "/next"
"""No file can be called so: no view of a user has such a name."""


def hidden_name(view: str) -> str:
    return view + NEXT


def is_hidden(name: str) -> bool:
    return name.endswith(NEXT)


def visible_name(name: str) -> str:
    """The view that a hidden one will be; any other is itself."""
    return name.removesuffix(NEXT)
