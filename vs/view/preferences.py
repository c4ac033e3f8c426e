"""Effective preferences: the strongest ones that agree with each other.

    written                                    effective
    c.name (must stay)  ──uses──▶ crm.customer c /* dispensable */     c cannot be dropped
    c.name (neither)    ──uses──▶ crm.customer c /* replaceable */     c cannot be replaced either

A component that says nothing takes the project's default. A relation may be dropped only if all that uses it may,
and replaced only if all that uses it may be replaced or dropped; where a file says otherwise, a warning says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from dyda.model.algebra.nodes import ViewDefinition, scans
from dyda.model.preferences import Preference
from vs.view.descriptions import said
from vs.view.region_preferences import Standing, condition_text, consistent, item_name
from vs.view.regions import Anatomy

__all__ = ["Defaults", "EffectivePreferences", "appending", "effective_preferences"]


@dataclass(frozen=True)
class Defaults:
    """What a component, or a view, prefers if its file says nothing."""

    component: Preference = field(default_factory=Preference)
    extent: str = "equivalent"
    new_columns: str = "ignore"


@dataclass(frozen=True)
class EffectivePreferences:
    """One preference for every component: items by name, relations by alias, conditions by their text."""

    extent: str
    new_columns: str
    items: tuple[tuple[str, Preference], ...]
    relations: tuple[tuple[str, Preference], ...]
    conditions: tuple[tuple[str, Preference], ...]
    warnings: tuple[str, ...] = ()


def appending(effective: EffectivePreferences, defaults: Defaults) -> Preference | None:
    """The preference of columns that the view appends: they may be dropped again. None if it appends none."""
    return replace(defaults.component, dispensable=True) if effective.new_columns == "append" else None


def effective_preferences(definition: ViewDefinition, defaults: Defaults | None = None) -> EffectivePreferences:
    """What holds for every component of the view."""
    defaults = defaults or Defaults()
    written = definition.preferences
    anatomy = Anatomy(definition)
    standing = Standing(anatomy, defaults.component)
    items: dict[str, Preference] = {}
    conditions: dict[str, Preference] = {}
    preferences = {place: standing.of(place) for place in sorted(anatomy.places, key=lambda p: p.kind != "item")}
    for place, preference in preferences.items():
        if place.kind == "item":
            items[item_name(anatomy, place)] = preference
        elif place.filters:
            conditions[condition_text(anatomy, place).sql] = preference
    relations: dict[str, Preference] = {}
    warnings: list[str] = []
    for scan in scans(definition.tree):
        using = {place: one for place, one in preferences.items() if scan.alias in place.expression.aliases}
        stated = written.of_relation(scan.alias)
        relations[scan.alias] = consistent(stated or defaults.component, using.values())
        if stated is not None:
            warnings += _contradictions(scan.alias, stated, [(said(anatomy, place), using[place]) for place in using])
    return EffectivePreferences(
        written.extent or defaults.extent,
        written.new_columns or defaults.new_columns,
        tuple(items.items()),
        tuple(relations.items()),
        tuple(conditions.items()),
        tuple(warnings),
    )


def _contradictions(alias: str, stated: Preference, using: Iterable[tuple[str, Preference]]) -> Iterator[str]:
    """`using`: the descriptions of what uses the relation."""
    remaining = [(name, preference) for name, preference in using if not preference.dispensable]
    staying = list(dict.fromkeys(name for name, _ in remaining))
    if stated.dispensable and staying:
        yield (
            f"{alias} is marked dispensable, but {' and '.join(staying)} must stay and {_needs(staying)} it:"
            f" it will not be dropped. Mark {' and '.join(staying)} dispensable too."
        )
    fixed = list(dict.fromkeys(name for name, preference in remaining if not preference.replaceable))
    if stated.replaceable and fixed:
        yield (
            f"{alias} is marked replaceable, but {' and '.join(fixed)} can be neither dropped nor replaced and"
            f" {_needs(fixed)} it: it will not be replaced. Mark {' and '.join(fixed)} replaceable or dispensable too."
        )


def _needs(names: list[str]) -> str:
    return "needs" if len(names) == 1 else "need"
