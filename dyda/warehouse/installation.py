"""What a unit installs: extents, versions, positions, the fate of the messages, as data; `install` carries it out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dyda.model.cause import Cause
from dyda.model.position import Position
from dyda.model.relation import RelationName
from dyda.model.view_state import ViewState
from dyda.warehouse.catalog.records import EarlierCatalog, RelationState, SourceState, UnitRecord, ViewVersion

if TYPE_CHECKING:
    import pyarrow as pa

    from dyda.warehouse.extents.prepared_tables import PreparedTables
    from dyda.warehouse.extents.staging import Staging
    from dyda.warehouse.states.install import StateChange

__all__ = ["Installation", "ViewChange"]


@dataclass(frozen=True)
class ViewChange:
    """What happens to one view.

    Its rows are the sum of a small `delta` (c1 … cn string, n int64), the `staging` table, and the old extent's rows
    with these of its columns in this order (`projection`, from 0); any may be missing. `mode` 'delta' adds them to the
    extent, 'replace' makes them all its rows. A projection alone leaves the table as it is: only what readers see of it
    changes. `version` is a new definition; a view that does not exist yet is created by it. `state` None leaves the
    state alone, except that a new version, or rows in `replace` mode, make the view `live`. `positions` by source: (the
    expected one or None, the new one or None to forget the source). `states` change in the same mode; a version with
    other states than before needs all rows of each. `renewed`: the view gets a new table, of the form that its layout
    asks for, with its rows as they are. `new_table`: a version's rows get a table of their own even if its columns are
    the same as before; that is cheaper than to change most rows of the old one.
    """

    view: str
    delta: pa.Table | None = None
    staging: Staging | None = None
    projection: tuple[int, ...] | None = None
    mode: str = "delta"
    version: ViewVersion | None = None
    state: ViewState | None = None
    cause: Cause | None = None
    positions: Mapping[str, tuple[Position | None, Position | None]] = field(default_factory=dict)
    states: tuple[StateChange, ...] = ()
    renewed: bool = False
    prepared: PreparedTables | None = None
    """Tables with all the rows of a new view and of its states."""
    new_table: bool = False

    def __post_init__(self) -> None:
        if self.mode not in ("delta", "replace"):
            raise ValueError(f"mode is delta or replace, not {self.mode!r}")

    @property
    def moves_rows_alone(self) -> bool:
        """Whether only the view's rows and positions change."""
        stays = self.mode == "delta" and self.version is None and self.state is None and not self.renewed
        return stays and all(new is not None for _, new in self.positions.values())

    @property
    def has_rows(self) -> bool:
        delta = self.delta is not None and (self.mode == "replace" or self.delta.num_rows > 0)
        return delta or self.staging is not None or self.projection is not None or self.prepared is not None


@dataclass(frozen=True)
class Installation:
    """One unit's outcome. `done` are the numbers of the messages that every view now includes."""

    changes: tuple[ViewChange, ...] = ()
    done: tuple[int, ...] = ()
    sources: tuple[SourceState, ...] = ()
    relations: tuple[RelationState, ...] = ()
    forgotten: tuple[RelationName, ...] = ()
    """Names of relations that no view uses any more: renamed, or dropped."""
    renamed: Mapping[RelationName, RelationName] = field(default_factory=dict)
    """By their names so far, those that relations have now: messages that wait name them so, too."""
    unit: UnitRecord | None = None
    knowledge: Mapping[str, Any] | None = None
    """The whole knowledge after the unit (`render_knowledge`); None leaves it alone."""
    earlier: Mapping[str, EarlierCatalog | None] = field(default_factory=dict)
    """By view, what it knows of its sources from now on that is older than the catalog; None: no longer anything."""
    retired: tuple[Mapping[str, Any], ...] = ()
    """Constraints that ended now: each a document of one entry, with its `reason`."""

    @property
    def moves_rows_alone(self) -> bool:
        """Whether nothing changes in the catalog but the views' positions and the sources' marks."""
        news = self.relations or self.forgotten or self.knowledge is not None or self.retired or self.earlier
        same_sources = all(state.identity is None and state.gap is None for state in self.sources)
        return not news and same_sources and all(change.moves_rows_alone for change in self.changes)
