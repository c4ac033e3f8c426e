"""What an error means for the view or the message that it concerns, as a cause. The one place that converts them."""

from __future__ import annotations

from dyda.errors import (
    DydaError,
    EvaluationFailed,
    InstallBlocked,
    InvariantViolated,
    NotInstallable,
    SourceNotAvailable,
    StoodOn,
    ValueDoesNotFit,
)
from dyda.model.cause import Cause, DependentObjects, InstallRefused, NegativeCount, SourceAway, Text, Uncomputable

__all__ = ["cause_of", "uncomputable"]


def cause_of(error: DydaError) -> Cause:
    """Why a view stays where it is."""
    match error:
        case StoodOn():
            return DependentObjects(error.what, tuple(error.dependents))
        case InvariantViolated():
            return NegativeCount(error.what)
        case SourceNotAvailable():
            return SourceAway(error.source, error.what)
        case InstallBlocked() | NotInstallable():
            return InstallRefused(error.what)
        case ValueDoesNotFit() | EvaluationFailed():
            return uncomputable(error)
        case _:
            return Text(error.what)


def uncomputable(error: ValueDoesNotFit | EvaluationFailed, row: str | None = None, view: str = "") -> Uncomputable:
    """The row that cannot be computed, without the name of `view` where that is clear anyway."""
    detail = error.what.removeprefix(f"view {view}: ")
    if isinstance(error, ValueDoesNotFit):
        return Uncomputable(detail, error.relation, error.column, row)
    return Uncomputable(detail, row=row)
