"""The catalog's tables in schema `dyda` of the warehouse. Migrations from empty give exactly these (tested).

project                    one row: who may write (fence), and how the sources relate (knowledge)
source, relation           what is known of the sources
view ── view_version ── extent ── form    definitions and the tables that hold their rows and states
   └─── position           which transactions are in the extent, per view and source (P5)
message                    the update message queue
unit, abort                installed and abandoned units
event                      what happened, for people and programs; `lasting` ones are kept longer
notified                   how far each notification has got
request, daemon, waiting   requests of commands, the holder of the lock, daemons that wait for it
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Double,
    ForeignKey,
    Identity,
    Index,
    Integer,
    MetaData,
    Sequence,
    Table,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, UUID

from dyda.warehouse.catalog.schema import SCHEMA

metadata = MetaData(
    schema=SCHEMA,
    naming_convention={
        "ix": "%(table_name)s_%(column_0_N_name)s_idx",
        "uq": "%(table_name)s_%(column_0_N_name)s_key",
        "fk": "%(table_name)s_%(column_0_N_name)s_fkey",
        "pk": "%(table_name)s_pkey",
    },
)


def _moment(name: str, *, nullable: bool = True, now: bool = False) -> Column[Any]:
    default = text("now()") if now else None
    return Column(name, DateTime(timezone=True), nullable=nullable, server_default=default)


def _number(name: str) -> Column[Any]:
    return Column(name, BigInteger, nullable=False, server_default=text("0"))


def _view(**options: Any) -> Column[Any]:
    return Column("view", Text, ForeignKey("dyda.view.name", ondelete="CASCADE"), nullable=False, **options)


staging_number = Sequence("staging_number", metadata=metadata, schema=SCHEMA)

project = Table(
    "project",
    metadata,
    Column("id", UUID(as_uuid=True), primary_key=True, server_default=text("gen_random_uuid()")),
    _number("fence"),
    _moment("created_at", nullable=False, now=True),
    Column("knowledge", JSONB, nullable=False, server_default=text("'{}'")),
    Column("knowledge_file", Text),
    Column("knowledge_evolved", Boolean, nullable=False, server_default=text("false")),
    Column("knowledge_retired", JSONB, nullable=False, server_default=text("'[]'")),
    Column("owner", Text),
)

source = Table(
    "source",
    metadata,
    Column("name", Text, primary_key=True),
    Column("system_identifier", Text),
    Column("timeline", Text),
    Column("gap", BigInteger),
    Column("capture", Text),
    Column("capture_order", Text),
    _moment("polled_at"),
    Column("reachable", Boolean),
    Column("error", Text),
    Column("mark", Text),
)

relation = Table(
    "relation",
    metadata,
    Column("source", Text, primary_key=True),
    Column("schema", Text, primary_key=True),
    Column("table", Text, primary_key=True),
    Column("oid", BigInteger, nullable=False),
    Column("fingerprint", Text),
    Column("columns", JSONB, nullable=False),
    Column("keys", JSONB, nullable=False),
    _number("estimated_rows"),
    Column("captured", Boolean, nullable=False, server_default=text("false")),
    Column("position", Text),
)

view = Table(
    "view",
    metadata,
    Column("name", Text, primary_key=True),
    Column("state", Text, nullable=False),
    Column("cause", JSONB),
    Column("file_text", Text),
    Column("version", Integer),
    _number("rows"),
    _moment("fresh_at"),
    _moment("created_at", nullable=False, now=True),
    Column("earlier", JSONB),
    Column("reason", Text),
    _moment("overdue_since"),
)

view_version = Table(
    "view_version",
    metadata,
    _view(primary_key=True),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("sql", Text, nullable=False),
    Column("columns", JSONB, nullable=False),
    Column("relations", ARRAY(Text), nullable=False, server_default=text("'{}'")),
    Column("details", JSONB, nullable=False, server_default=text("'{}'")),
    Column("extent", BigInteger, nullable=False),
    Column("cause", Text, nullable=False),
    _moment("installed_at", nullable=False, now=True),
    Column("states", JSONB, nullable=False, server_default=text("'[]'")),
    Column("places", ARRAY(Integer)),
    Column("program", Text),
    Column("layout", JSONB),
)

extent = Table(
    "extent",
    metadata,
    Column("id", BigInteger, Identity(), primary_key=True),
    _view(),
    Column("version", Integer, nullable=False),
)

form = Table(
    "form",
    metadata,
    Column(
        "extent",
        BigInteger,
        ForeignKey("dyda.extent.id", ondelete="CASCADE"),
        primary_key=True,
        autoincrement=False,
    ),
    Column("form", Text, nullable=False),
    Column("key", ARRAY(Integer)),
)

position = Table(
    "position",
    metadata,
    _view(primary_key=True),
    Column("source", Text, primary_key=True),
    Column("position", Text, nullable=False),
)

message = Table(
    "message",
    metadata,
    Column("id", BigInteger, Identity(), primary_key=True),
    Column("source", Text, nullable=False),
    Column("xid", BigInteger, nullable=False),
    Column("last_sequence", BigInteger, nullable=False),
    Column("kind", Text, nullable=False),
    Column("changes", JSONB, nullable=False),
    Column("relations", ARRAY(Text), nullable=False),
    _number("rows"),
    Column("state", Text, nullable=False, server_default=text("'waiting'")),
    Column("cause", JSONB),
    Column("unit", BigInteger),
    _moment("committed_at"),
    _moment("received_at", nullable=False, now=True),
    Column("approved", Boolean, nullable=False, server_default=text("false")),
    Column("reason", Text),
    UniqueConstraint("source", "xid"),
)

unit = Table(
    "unit",
    metadata,
    Column("id", BigInteger, Identity(), primary_key=True),
    Column("mode", Text, nullable=False),
    _moment("started_at", nullable=False),
    _moment("installed_at", nullable=False, now=True),
    _number("messages"),
    _number("rows"),
    _number("queries"),
    _number("jobs"),
    Column("phases", JSONB, nullable=False, server_default=text("'{}'")),
    Column("kind", Text, nullable=False, server_default=text("'data'")),
)

abort = Table(
    "abort",
    metadata,
    Column("id", BigInteger, Identity(), primary_key=True),
    _moment("at", nullable=False, now=True),
    Column("messages", ARRAY(BigInteger), nullable=False),
    Column("reason", Text, nullable=False),
    Column("seconds", Double, nullable=False),
    Column("relations", ARRAY(Text), nullable=False, server_default=text("'{}'")),
)

request = Table(
    "request",
    metadata,
    Column("id", BigInteger, Identity(), primary_key=True),
    Column("verb", Text, nullable=False),
    Column("arguments", JSONB, nullable=False),
    Column("state", Text, nullable=False, server_default=text("'waiting'")),
    Column("progress", JSONB),
    Column("result", JSONB),
    Column("error", JSONB),
    _moment("created_at", nullable=False, now=True),
    _moment("finished_at"),
)
Index("request_open_idx", request.c.id, postgresql_where=text("state IN ('waiting', 'running')"))

daemon = Table(
    "daemon",
    metadata,
    Column("fence", BigInteger, primary_key=True, autoincrement=False),
    Column("role", Text, nullable=False),
    Column("pid", Integer, nullable=False),
    Column("host", Text, nullable=False),
    Column("backend", Integer, nullable=False),
    _moment("since", nullable=False, now=True),
    _moment("seen_at", nullable=False, now=True),
    Column("obstacle", Text),
)

waiting = Table(
    "waiting",
    metadata,
    Column("backend", Integer, primary_key=True, autoincrement=False),
    Column("pid", Integer, nullable=False),
    Column("host", Text, nullable=False),
    _moment("since", nullable=False, now=True),
)

event = Table(
    "event",
    metadata,
    Column("id", BigInteger, Identity(), primary_key=True),
    _moment("at", nullable=False),
    Column("kind", Text, nullable=False),
    Column("view", Text),
    Column("source", Text),
    Column("message", BigInteger),
    Column("text", Text, nullable=False),
    Column("next", Text),
    Column("cause", JSONB),
    Column("details", JSONB, nullable=False, server_default=text("'{}'")),
)
# Most events are installed units: an index that each of them enters would cost what the event does.
Index("event_at_idx", event.c.at, postgresql_using="brin")
Index("event_lasting_idx", event.c.id, postgresql_where=text("kind <> 'unit.installed'"))
Index("event_view_idx", event.c.view, event.c.id, postgresql_where=text("view IS NOT NULL"))

notified = Table(
    "notified",
    metadata,
    Column("target", Text, primary_key=True),
    Column("event", BigInteger, nullable=False),
    _moment("at", nullable=False, now=True),
)
