"""A property that is computed once per object, as functools.cached_property but without its lock (Python 3.11).

Two threads may both compute it at the same time, so the result must be the same: the objects are frozen.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

__all__ = ["once"]

Value = TypeVar("Value")


class once(Generic[Value]):
    """Stores the value in the object's own dictionary, where later lookups find it directly."""

    def __init__(self, compute: Callable[[Any], Value]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> once[Value]: ...
    @overload
    def __get__(self, instance: object, owner: type) -> Value: ...

    def __get__(self, instance: object | None, owner: type) -> once[Value] | Value:
        if instance is None:
            return self
        value = instance.__dict__[self._name] = self._compute(instance)
        return value
