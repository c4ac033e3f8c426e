"""What its author allows for each expression of a view, itself or by what reads it.

    SELECT sum(f.price) AS total /* dispensable */       the aggregate may go, because all that reads it may
    SELECT d.x FROM (SELECT f.x /* replaceable */ …) d   f.x may come from elsewhere: d.x is there as before
    SELECT a.x … UNION SELECT b.x …                      the column may go if it may in every branch

An expression that is read above can go only if all its readers can. Where its own text says nothing, it may be replaced
if all its readers may; a key of GROUP BY that nothing reads has the project's default.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from dyda.model.algebra.expressions import joined
from dyda.model.algebra.nodes import Derived, Expression, SemiJoin
from dyda.model.preferences import Preference
from vs.view.regions import Anatomy, Path, Place

__all__ = ["Standing", "condition_text", "consistent", "item_name"]


@dataclass(frozen=True)
class Standing:
    """The effective preference of every place; `default` is what holds where a file says nothing."""

    anatomy: Anatomy
    default: Preference
    _known: dict[Place, Preference] = field(default_factory=dict, compare=False, repr=False)

    def written(self, place: Place) -> Preference | None:
        """What the file says right there."""
        preferences = self.anatomy.definition.preferences
        if place.kind == "item":
            return preferences.of_item(item_name(self.anatomy, place))
        return preferences.of_condition(condition_text(self.anatomy, place).sql) if place.filters else None

    def of(self, place: Place) -> Preference:
        if place not in self._known:
            self._known[place] = self._of(place)
        return self._known[place]

    def _of(self, place: Place) -> Preference:
        match place.kind:
            case "condition" | "on" | "matching" | "membership":
                return self.written(place) or self.default
            case "item":
                return self._item(place)
            case "key" | "aggregate":
                readers = [self.of(reader) for reader in self.anatomy.readers_of(place)]
                return _shared(readers) if readers else self.default

    def subquery(self, path: Path) -> Preference:
        """Of EXISTS (…) or IN (…) as a whole: what all of its conditions with what is outside are marked with."""
        own = [place for place in self.anatomy.places if place.path == path]
        return _shared(self.of(place) for place in own) if own else self.default

    def _item(self, place: Place) -> Preference:
        beside = [self.written(item) for item in self.anatomy.together(place)]
        own = self.written(place)
        if self.anatomy.delivers(place) is None:
            may_go = all((said or self.default).dispensable for said in beside)
            return Preference(may_go, (own or self.default).replaceable)
        readers = _shared(self.of(reader) for reader in self.anatomy.readers_of(place))
        may_go = readers.dispensable and all(said is None or said.dispensable for said in beside)
        return Preference(may_go, own.replaceable if own is not None else readers.replaceable)


def item_name(anatomy: Anatomy, place: Place) -> str:
    """The name under which the preferences know a select item: the branches of a query share their columns' names."""
    query = anatomy.query(place.path)
    above = anatomy.nodes[query[:-1]] if query else None
    name = anatomy.nodes[query].columns[place.number].column
    return f"{above.alias}.{name}" if isinstance(above, Derived) else name


def condition_text(anatomy: Anatomy, place: Place) -> Expression:
    """The text under which the preferences know a condition."""
    node = anatomy.nodes[place.path]
    if place.kind == "membership" and isinstance(node, SemiJoin) and node.membership is not None:
        return joined(node.membership[0], " NOT IN ", node.membership[1])
    return place.expression


def consistent(said: Preference, using: Iterable[Preference]) -> Preference:
    """A relation may be dropped only if all that uses it may, and replaced only if all of it may be or may go."""
    users = list(using)
    return Preference(
        said.dispensable and all(user.dispensable for user in users),
        said.replaceable and all(user.dispensable or user.replaceable for user in users),
    )


def _shared(preferences: Iterable[Preference]) -> Preference:
    found = list(preferences)
    return Preference(all(one.dispensable for one in found), all(one.replaceable for one in found))
