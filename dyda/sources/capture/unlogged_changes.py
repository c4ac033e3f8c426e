"""Changes that were undone between two polls, at a source without event triggers.

A partition that was created, filled and dropped again, a parent that a table had for a moment, a table that was
unlogged during a crash: rows have changed, nothing was logged, and the catalog looks as before. But there is a trace:

- how many rows PostgreSQL has ever inserted, updated and deleted in pg_inherits and pg_subscription_rel. These
  statistics only grow, even by what is rolled back;
- when it began to count. A crash makes it start again, and so does whoever resets the statistics.

A different trace is a doubt, not a proof: whatever reads the source is read again. Sessions report their counts after
a second, or up to ten if idle, so the doubt arises soon, not at once. Where event triggers exist, no trace is read.
"""

from __future__ import annotations

from dyda.cursor import Cursor

__all__ = ["agrees", "kept", "read_trace"]

SEPARATOR = " after "


def read_trace(cursor: Cursor) -> str:
    """That of the whole database. The transaction must be a fresh one: within one, statistics do not change."""
    cursor.execute(
        "SELECT concat_ws('/', pg_stat_get_tuples_inserted(i), pg_stat_get_tuples_updated(i),"
        " pg_stat_get_tuples_deleted(i), pg_stat_get_tuples_inserted(s), pg_stat_get_tuples_deleted(s),"
        " extract(epoch FROM pg_stat_get_bgwriter_stat_reset_time()),"
        " extract(epoch FROM pg_stat_get_db_stat_reset_time(d.oid)))"
        " FROM pg_database d,"
        " (VALUES ('pg_catalog.pg_inherits'::regclass, 'pg_catalog.pg_subscription_rel'::regclass)) AS t (i, s)"
        " WHERE d.datname = current_database()"
    )
    (found,) = cursor.fetchone()
    return str(found)


def kept(lasting: str, trace: str | None) -> str:
    """What the warehouse keeps of a relation: its lasting fingerprint, and the trace if there is one."""
    return lasting if trace is None else f"{lasting}{SEPARATOR}{trace}"


def agrees(recorded: str | None, lasting: str, trace: str | None) -> bool:
    """Whether a relation is as it was when `recorded` was kept. With event triggers (no `trace`) its fingerprint is
    enough; without them, a record that has no trace proves nothing."""
    before, _, left = (recorded or "").partition(SEPARATOR)
    return before == lasting and (trace is None or left == trace)
