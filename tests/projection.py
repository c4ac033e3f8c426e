"""The select list of a view that has one."""

from __future__ import annotations

from dyda.model.algebra.nodes import Project, ViewDefinition

__all__ = ["projection"]


def projection(view: ViewDefinition) -> Project:
    """The top of its tree, which is neither DISTINCT nor a set operation."""
    assert isinstance(view.tree, Project), view.tree
    return view.tree
