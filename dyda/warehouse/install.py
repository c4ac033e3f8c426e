"""Installing a unit: extents, versions, DDL, positions and the fate of the messages, in one transaction.

`carry_out` does what an `Installation` says, in a transaction that the writer has opened and fenced. It only raises or
succeeds: the writer rolls back or commits. Each view's part is a `ViewInstaller`'s.
"""

from __future__ import annotations

from collections.abc import Sequence

from psycopg2.extras import Json

from dyda import faults
from dyda.cursor import Cursor
from dyda.errors import PositionMoved
from dyda.model.event import Event
from dyda.warehouse.catalog.codec import earlier_to_json, name_to_text, relation_to_json
from dyda.warehouse.catalog.events import save_events
from dyda.warehouse.catalog.records import EventRecord, RelationState, SourceState, UnitRecord
from dyda.warehouse.catalog.stored_views import known_views
from dyda.warehouse.connection import load
from dyda.warehouse.extents.published_view import publish
from dyda.warehouse.hidden_names import is_hidden
from dyda.warehouse.installation import Installation, ViewChange
from dyda.warehouse.transitions import unit_event
from dyda.warehouse.view_installer import ViewInstaller, owned

__all__ = ["carry_out", "save_relation", "save_source"]


def carry_out(
    cursor: Cursor, installation: Installation, schema: str, patience: float
) -> tuple[int | None, list[EventRecord]]:
    """Carries out an installation; the caller's transaction holds the fence's row. Returns the unit's number, and what
    has happened, which is saved with it."""
    faults.point("install.begun")
    known = known_views(cursor, [change.view for change in installation.changes])
    installers = [
        ViewInstaller(cursor, change, schema, n, known.get(change.view), patience)
        for n, change in enumerate(installation.changes)
    ]
    for installer in installers:
        with owned(installer.change.view):
            installer.run()
    shown = [installer for installer in installers if not is_hidden(installer.change.view)]
    publish(cursor, [p for installer in shown if (p := installer.publication) is not None], patience)
    for installer in installers:
        with owned(installer.change.view):
            installer.clear()
            installer.index()
    faults.point("install.merged")
    for change in installation.changes:
        if change.version is not None:
            # A new definition may read other sources: the positions that come with it are all there are.
            cursor.execute(
                "DELETE FROM dyda.position WHERE view = %s AND source <> ALL(%s)", (change.view, list(change.positions))
            )
    _move(cursor, installation.changes)
    for state in installation.sources:
        save_source(cursor, state)
    for name in installation.forgotten:
        cursor.execute(
            'DELETE FROM dyda.relation WHERE source = %s AND schema = %s AND "table" = %s',
            (name.source, name.schema, name.table),
        )
    for relation in installation.relations:
        save_relation(cursor, relation)
    for view, earlier in installation.earlier.items():
        entry = None if earlier is None else Json(earlier_to_json(earlier))
        cursor.execute("UPDATE dyda.view SET earlier = %s WHERE name = %s", (entry, view))
    if installation.done:
        cursor.execute("DELETE FROM dyda.message WHERE id = ANY(%s)", (list(installation.done),))
    for source in sorted({name.source for name in installation.renamed}):
        names = {old: new for old, new in installation.renamed.items() if old.source == source}
        parameters = {
            "source": source,
            "old": list(map(name_to_text, names)),
            "new": list(map(name_to_text, names.values())),
        }
        cursor.execute(load("rename_messages.sql"), parameters)
    if installation.knowledge is not None:
        cursor.execute(
            "UPDATE dyda.project SET knowledge = %(document)s, knowledge_retired = knowledge_retired || %(retired)s,"
            " knowledge_evolved = knowledge_evolved OR knowledge <> %(document)s",
            {
                "document": Json(dict(installation.knowledge)),
                "retired": Json([dict(entry) for entry in installation.retired]),
            },
        )
    number = None if installation.unit is None else _save_unit(cursor, installation.unit)
    happened = save_events(cursor, _events(installation, number, shown))
    faults.point("install.before-commit")
    return number, happened


def _events(installation: Installation, number: int | None, shown: Sequence[ViewInstaller]) -> list[Event]:
    """What happened to the views, and the unit's one line."""
    unit = installation.unit
    built = unit is not None and unit.kind == "build"
    events = [event for installer in shown for event in installer.events(built=built)]
    if unit is not None and number is not None:
        events.append(unit_event(number, unit, len(shown)))
    return events


def _move(cursor: Cursor, changes: Sequence[ViewChange]) -> None:
    """The positions move by compare-and-set (I1), all of them in one statement."""
    wanted = {
        (change.view, source): (None if expected is None else str(expected), None if new is None else str(new))
        for change in changes
        for source, (expected, new) in change.positions.items()
        if expected is not None or new is not None
    }
    if not wanted:
        return
    moves = [(*place, *move) for place, move in wanted.items()]
    cursor.execute(
        load("move_positions.sql"),
        dict(zip(("views", "sources", "expected", "new"), map(list, zip(*moves, strict=True)), strict=True)),
    )
    moved = set(cursor.fetchall())
    for (view, source), (expected, _) in wanted.items():
        if (view, source) not in moved:
            cursor.execute("SELECT position FROM dyda.position WHERE view = %s AND source = %s", (view, source))
            found = cursor.fetchone()
            raise PositionMoved(view, source, expected, found[0] if found else None)


def save_source(cursor: Cursor, state: SourceState) -> None:
    identity = state.identity
    cursor.execute(
        load("save_source.sql"),
        {
            **vars(state),
            "system_identifier": None if identity is None else str(identity.system_identifier),
            "timeline": None if identity is None else str(identity.timeline),
        },
    )


def save_relation(cursor: Cursor, state: RelationState) -> None:
    row = relation_to_json(state.relation)
    cursor.execute(
        load("save_relation.sql"),
        {
            **row,
            **vars(state),
            "columns": Json(row["columns"]),
            "keys": Json(row["keys"]),
            "position": None if state.position is None else str(state.position),
        },
    )


def _save_unit(cursor: Cursor, unit: UnitRecord) -> int:
    cursor.execute(load("save_unit.sql"), {**vars(unit), "phases": Json(dict(unit.phases))})
    return int(cursor.fetchone()[0])
