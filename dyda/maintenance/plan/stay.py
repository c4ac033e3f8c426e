"""Views that wait stay where they are while others process schema changes of the relations that they read.

The catalog describes each relation once, as the views know it that have come furthest. A view that waits keeps the
descriptions and the knowledge that it had (`EarlierCatalog`), so that its text means what it meant and its own row
images can be read. It gives them up relation by relation as it processes the changes.

Names are the catalog's for all views: a name means one table. So the text of a view that waits follows a table's new
name at once (`new_names`), and the rename is no news to it when its turn comes (`CatalogState.named_now`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from dyda.maintenance.catalog_state import CatalogState, MaintainedView
from dyda.maintenance.observe.round import Round
from dyda.maintenance.plan.knowledge_after import evolved_knowledge, relations_after
from dyda.maintenance.plan.unit_plan import RelationFacts
from dyda.model.relation import Relation, RelationName
from dyda.warehouse import EarlierCatalog
from scheduler import Queued, Unit

__all__ = ["Advance", "advance", "kept", "new_names", "stay", "stays"]


@dataclass(frozen=True)
class Advance:
    """What a unit says of relations: `facts` for the catalog, `own` for the views that it moves and that go on knowing
    older descriptions than the catalog."""

    facts: RelationFacts
    own: tuple[Relation, ...] = ()


def advance(round: Round, unit: Unit | None, facts: RelationFacts) -> Advance:
    """Which descriptions are new to the catalog, and which only to views that are behind it.

    The schema changes of one relation concern all its readers and come from one source, so what two views know of it
    is never more than earlier and later."""
    stored, known = round.stored, round.catalog
    if stored.relations is known.relations or unit is None:
        return Advance(facts)
    owned = {name: one.relation for name, one in known.relations.items() if not _same(stored, name, one.relation)}
    ours = frozenset(unit.numbers)
    described = dict(facts.described)
    for name in list(owned):
        left = [queued for queued in _changing(round, name) if queued.number not in ours]
        taken = [queued for queued in _changing(round, name) if queued.number in ours]
        if not taken:
            described.pop(name, None)
            continue
        if any(not stored.is_described_with(name, queued.message.xid) for queued in taken):
            del owned[name]  # it is the catalog that is behind now
            continue
        after = described.pop(name, owned[name])
        lacked = [
            queued
            for queued in left
            if stored.is_described_with(name, queued.message.xid)
            and not all(view.has(queued.message.source, queued.message.xid) for view in known.views.values())
        ]
        if lacked:
            owned[name] = after
        else:
            del owned[name]
    return Advance(replace(facts, described=described), tuple(owned[name] for name in sorted(owned)))


def stay(round: Round, views: Iterable[MaintainedView], facts: RelationFacts) -> dict[str, EarlierCatalog]:
    """What these views, which wait, know of their sources from now on; those that know what they knew are left out."""
    found = {}
    for view in views:
        known = round.stored.known_to(view.record.earlier)
        before = {} if view.record.earlier is None else {one.name: one for one in view.record.earlier.relations}
        before |= {name: known.relations[name].relation for name in _lagging(round, view, known, facts)}
        after = relations_after(known, before, facts.described, facts.gone)
        own = {now.name: now for name, one in before.items() for now in [_called(one, after.get(name))]}
        if own:
            described = {**facts.described, **own}
            earlier = kept(known, own.values(), described, facts.gone - before.keys())
            if earlier != view.record.earlier:
                found[view.name] = earlier
    return found


def new_names(round: Round, view: MaintainedView, facts: RelationFacts) -> dict[RelationName, Relation]:
    """By the names that its text has, the relations that have others from now on, as the view knows them."""
    known = round.stored.known_to(view.record.earlier)
    after = relations_after(known, view.definition.relations, facts.described, facts.gone)
    called = {name: _called(known.relations[name].relation, now) for name, now in after.items()}
    return {name: relation for name, relation in called.items() if relation.name != name}


def _called(relation: Relation, now: Relation | None) -> Relation:
    """The relation under the name that it has now; one that is gone keeps its name."""
    return relation if now is None else replace(relation, name=now.name)


def kept(
    known: CatalogState,
    own: Iterable[Relation],
    described: Mapping[RelationName, Relation],
    gone: Iterable[RelationName],
) -> EarlierCatalog:
    """These relations, and what becomes of the knowledge by the others that are `described` or `gone` now."""
    evolved = evolved_knowledge(known, described, gone).document
    document: Mapping[str, Any] = known.knowledge_record.document if evolved is None else evolved
    relations = sorted(own, key=lambda relation: relation.name)
    return EarlierCatalog(tuple(relations), json.dumps(document, sort_keys=True))


def stays(round: Round, view: MaintainedView, facts: RelationFacts) -> bool:
    """Whether the view can go on knowing its relations as they were: no other table has the name of one."""
    known = round.stored.known_to(view.record.earlier)
    after = relations_after(known, view.definition.relations, facts.described, facts.gone)
    return all(now is None or now.oid == known.relations[name].relation.oid for name, now in after.items())


def _lagging(round: Round, view: MaintainedView, known: CatalogState, facts: RelationFacts) -> set[RelationName]:
    """The relations that become others for the catalog by changes that the view lacks."""
    changed = relations_after(known, view.definition.relations, facts.described, facts.gone)
    return {
        name
        for name in changed
        if any(not view.has(name.source, queued.message.xid) for queued in _changing(round, name))
    }


def _changing(round: Round, name: RelationName) -> list[Queued]:
    return [
        queued for queued in round.moving if any(change.relation == name for change in queued.message.schema_changes)
    ]


def _same(stored: CatalogState, name: RelationName, relation: Relation) -> bool:
    record = stored.relations.get(name)
    return record is not None and record.relation == relation
