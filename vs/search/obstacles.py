"""Why no legal rewriting was found: the component that prevents it, and what would have saved the view."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dyda.model.algebra.nodes import ColumnRef
from dyda.model.cause import Clause
from dyda.model.relation import RelationName
from vs.judgement import Broken
from vs.schema_mapping import Passage
from vs.view.block import Block, Component

__all__ = ["Obstacles"]


@dataclass(frozen=True)
class _Obstacle:
    """`stage`: how far the search had come; the furthest one is reported."""

    stage: int
    reason: str
    component: str
    remedy: str
    preference: Clause | None


@dataclass
class Obstacles:
    """Collected while searching. `natural`: the search follows the most natural combination of choices."""

    passage: Passage
    natural: bool = True
    inside: str = ""
    """The part of the view that is searched, if not all of it; reported with the relation."""
    found: list[_Obstacle] = field(default_factory=list)

    def relation_must_stay(self, block: Block, alias: str) -> None:
        """A relation is gone, and may be neither dropped nor replaced."""
        name = block.relation(alias)
        written = block.definition.preferences.of_relation(alias)
        using = [component for component in block.components if alias in component.expression.aliases]
        if written is not None and written.replaceable:
            fixed = next(c for c in using if not c.preference.dispensable and not c.preference.replaceable)
            self._add(
                1,
                f"{name} was dropped, and {fixed}, which uses it, may be neither dropped nor replaced",
                fixed.name,
                f"mark {fixed.name} replaceable or dispensable",
                _clause(fixed),
            )
            return
        if written is not None and written.dispensable:
            fixed = next(c for c in using if not c.preference.dispensable)
            self._add(
                1,
                f"{name} was dropped, and {fixed}, which uses it, must stay",
                fixed.name,
                f"mark {fixed.name} dispensable, or mark {alias} replaceable and add a [[containment]] of"
                f" {self._projection(block, alias)}",
                _clause(fixed),
            )
            return
        self._add(
            1,
            f"{name} was dropped, and {alias} may be neither dropped nor replaced",
            f"{name} {alias}",
            f"mark {alias} replaceable and add a [[containment]] of {self._projection(block, alias)},"
            " or mark it dispensable",
            _relation_clause(block, alias),
        )

    def relation_has_no_cover(self, block: Block, alias: str) -> None:
        """A relation is gone and may only be replaced, and nothing takes its place."""
        name = block.relation(alias)
        self._add(
            2,
            f"{name} was dropped, and knowledge.toml has no replacement for it",
            f"{name} {alias}",
            f"add a [[containment]] of {self._projection(block, alias)}, or mark {alias} dispensable",
            _relation_clause(block, alias),
        )

    def component_must_stay(self, block: Block, component: Component, lost: Sequence[ColumnRef]) -> None:
        """A column that the component needs is lost, and the component can be neither dropped nor substituted."""
        ref = lost[0]
        name = block.relation(ref.alias)
        why = self.passage.why_gone(name, ref.column)
        gone = self.passage.after(name) is None
        attribute = f"{short(name)}.{ref.column}"
        offer = f"add a [[function]] for {attribute}"
        if gone:
            offer = f"add a [[containment]] of {self._projection(block, ref.alias)}"
        if component.preference.replaceable:
            self._add(
                2,
                f"{why}, and knowledge.toml has no replacement for {attribute}, which {component} needs",
                component.name,
                f"{offer}, or mark {component.name} dispensable",
                _clause(component),
            )
        else:
            self._add(
                1,
                f"{why}, and {component}, which needs it, may be neither dropped nor replaced",
                component.name,
                f"mark {component.name} replaceable and {offer}, or mark it dispensable",
                _clause(component),
            )

    def no_path(self, block: Block, lost: ColumnRef, end: RelationName) -> None:
        """What covers a lost column cannot be joined with the relation that had it."""
        start = block.relation(lost.alias)
        users = [component for component in block.components if lost in component.expression.columns]
        staying = next((component for component in users if not component.preference.dispensable), None)
        self._add(
            3,
            f"{self.passage.why_gone(start, lost.column)}, and no join constraint connects {start}"
            f" with {end}, which offers it",
            (staying or users[0]).name,
            f"add a [[join]] between {short(start)} and {short(end)}",
            None if staying is None else _clause(staying),
        )

    def disconnected(self, start: RelationName, end: RelationName, because: str) -> None:
        """Two parts of the view would not be joined any more."""
        self._add(
            3,
            f"{because}, and no join constraint connects {start} with {end} without it",
            f"{start} and {end}",
            f"add a [[join]] between {short(start)} and {short(end)}",
        )

    def extent(self, because: str, asked: str, found: str, by: str) -> None:
        """There are rewritings, and none of them keeps what the view asks of its extent."""
        self._add(
            4,
            f"{because}; the best rewriting ({by}) has extent {found}, and the view asks for {asked}",
            "extent",
            f"write `-- dyda: extent = {'any' if found == 'unknown' else found}` in the view file, or add a"
            " [[containment]] that proves more",
            Clause("view", extent=asked),
        )

    def unreadable(self, because: str, what: str, remedy: str) -> None:
        """A rewriting that cannot be read over the relations as they are now."""
        self._add(3, f"{because}, and {what}" if because else what, "", remedy)

    def broken(self, because: str) -> Broken:
        """The furthest obstacle, told."""
        if not self.found:
            return Broken(because)
        told = max(self.found, key=lambda obstacle: obstacle.stage)
        return Broken(told.reason, told.component, told.remedy, told.preference)

    def _add(self, stage: int, reason: str, component: str, remedy: str, preference: Clause | None = None) -> None:
        if self.natural or stage == 4:
            where = f" (inside {self.inside})" if self.inside and self.inside not in reason else ""
            self.found.append(_Obstacle(stage, reason + where, component, remedy, preference))

    def _projection(self, block: Block, alias: str) -> str:
        """What a containment would have to cover: `crm.customer(name, phone)`."""
        columns = ", ".join(ref.column for ref in block.references(alias))
        return f"{short(block.relation(alias))}({columns})" if columns else short(block.relation(alias))


def _clause(component: Component) -> Clause:
    allowed = component.preference
    part = "column" if component.kind == "item" else "condition"
    return Clause(part, component.name, allowed.dispensable, allowed.replaceable)


def _relation_clause(block: Block, alias: str) -> Clause:
    allowed = block.preferences[alias]
    return Clause("relation", alias, allowed.dispensable, allowed.replaceable)


def short(name: RelationName) -> str:
    """As a knowledge.toml would say it in the usual case."""
    return f"{name.source}.{name.table}" if name.schema == "public" else str(name)
