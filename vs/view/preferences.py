"""Effective preferences: the strongest ones that agree with each other.

    written                                    effective
    c.name (must stay)  ──uses──▶ crm.customer c /* dispensable */     c cannot be dropped
    c.name (neither)    ──uses──▶ crm.customer c /* replaceable */     c cannot be replaced either

A component that says nothing takes the project's default. A relation may be dropped only if all that uses it may,
and replaced only if all that uses it may be replaced or dropped; where a file says otherwise, a warning says so.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from dyda.model.algebra.nodes import Expression, ViewDefinition, scans
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

    def of_item(self, name: str) -> Preference:
        return dict(self.items)[name]

    def of_relation(self, alias: str) -> Preference:
        return dict(self.relations)[alias]

    def of_condition(self, sql: str) -> Preference:
        return dict(self.conditions)[sql]


@dataclass(frozen=True)
class _User:
    """A select item or a condition that uses a relation."""

    what: str
    expression: Expression
    preference: Preference

    @property
    def must_stay(self) -> bool:
        return not self.preference.dispensable

    @property
    def must_stay_as_it_is(self) -> bool:
        return self.must_stay and not self.preference.replaceable


def appending(effective: EffectivePreferences, defaults: Defaults) -> Preference | None:
    """What holds for a column that the view appends by itself: it may go by itself, too. None if it appends none."""
    return replace(defaults.component, dispensable=True) if effective.new_columns == "append" else None


def effective_preferences(definition: ViewDefinition, defaults: Defaults | None = None) -> EffectivePreferences:
    """What holds for every component of the view."""
    defaults = defaults or Defaults()
    written = definition.preferences
    anatomy = Anatomy(definition)
    standing = Standing(anatomy, defaults.component)
    items: dict[str, Preference] = {}
    conditions: dict[str, Preference] = {}
    users = []
    for place in sorted(anatomy.places, key=lambda place: place.kind != "item"):
        preference = standing.of(place)
        if place.kind == "item":
            items[item_name(anatomy, place)] = preference
        elif place.filters:
            conditions[condition_text(anatomy, place).sql] = preference
        users.append(_User(said(anatomy, place), place.expression, preference))
    relations: dict[str, Preference] = {}
    warnings: list[str] = []
    for scan in scans(definition.tree):
        using = [user for user in users if scan.alias in user.expression.aliases]
        stated = written.of_relation(scan.alias)
        relations[scan.alias] = consistent(stated or defaults.component, [user.preference for user in using])
        if stated is not None:
            warnings += _contradictions(scan.alias, stated, using)
    return EffectivePreferences(
        written.extent or defaults.extent,
        written.new_columns or defaults.new_columns,
        tuple(items.items()),
        tuple(relations.items()),
        tuple(conditions.items()),
        tuple(warnings),
    )


def _contradictions(alias: str, said: Preference, using: Iterable[_User]) -> list[str]:
    users = list(using)
    warnings = []
    staying = [user.what for user in users if user.must_stay]
    if said.dispensable and staying:
        warnings.append(
            f"{alias} is marked dispensable, but {_listed(staying)} must stay and {_needs(staying)} it:"
            f" it will not be dropped. Mark {_listed(staying)} dispensable too."
        )
    fixed = [user.what for user in users if user.must_stay_as_it_is]
    if said.replaceable and fixed:
        warnings.append(
            f"{alias} is marked replaceable, but {_listed(fixed)} can be neither dropped nor replaced and"
            f" {_needs(fixed)} it: it will not be replaced. Mark {_listed(fixed)} replaceable or dispensable too."
        )
    return warnings


def _listed(names: list[str]) -> str:
    return " and ".join(dict.fromkeys(names))


def _needs(names: list[str]) -> str:
    return "needs" if len(set(names)) == 1 else "need"
