"""Extents as versions before 0014 left them: each distinct row once, with a digest of 32 bytes and a count."""

from __future__ import annotations

from contextlib import closing

from psycopg2 import sql

from dyda import handshake
from dyda.warehouse.catalog.stored_views import known_extent

__all__ = ["make_older", "make_older_state"]


def make_older(url: str, view: str, schema: str = "public") -> int:
    """Gives the view such a table, and readers the view over it; the number of its extent."""
    with closing(handshake.connect(url, {}, application_name="tests")) as connection:
        connection.autocommit = False
        with connection.cursor() as cursor:
            known, extent = known_extent(cursor, view)
            cursor.execute(
                "INSERT INTO dyda.extent (view, version) VALUES (%s, %s) RETURNING id", (view, known.version)
            )
            (number,) = cursor.fetchone()
            table = sql.Identifier("dyda", f"extent_{number}")
            places = range(1, len(known.columns) + 1)
            names = sql.SQL(", ").join(sql.Identifier(f"c{place}") for place in places)
            cursor.execute(
                sql.SQL("CREATE TABLE {} (hash bytea NOT NULL, {}, count bigint NOT NULL CHECK (count > 0))").format(
                    table,
                    sql.SQL(", ").join(
                        sql.SQL("{} {}").format(sql.Identifier(f"c{place}"), sql.SQL(column.type))
                        for place, column in zip(places, known.columns, strict=True)
                    ),
                )
            )
            firsts = sql.SQL(", ").join(sql.SQL("(array_agg({}))[1]").format(sql.Identifier(f"c{p}")) for p in places)
            cursor.execute(
                sql.SQL(
                    "INSERT INTO {} SELECT sha256(convert_to(ROW({})::text, 'UTF8')), {}, count(*)"
                    " FROM {} AS e GROUP BY 1"
                ).format(table, names, firsts, extent.table)
            )
            cursor.execute(sql.SQL("ALTER TABLE {} ADD PRIMARY KEY (hash)").format(table))
            shown = sql.SQL(", ").join(
                sql.SQL("e.{} AS {}").format(sql.Identifier(f"c{place}"), sql.Identifier(column.name))
                for place, column in zip(places, known.columns, strict=True)
            )
            cursor.execute(
                sql.SQL(
                    "CREATE OR REPLACE VIEW {} AS SELECT {} FROM {} AS e"
                    " CROSS JOIN LATERAL generate_series(1, e.count) AS copies WHERE dyda.extent_visible({})"
                ).format(sql.Identifier(schema, view), shown, table, sql.Literal(number))
            )
            extent.drop(cursor)
            cursor.execute("DELETE FROM dyda.extent WHERE id = %s", (extent.number,))
            cursor.execute(
                "UPDATE dyda.view_version SET extent = %s WHERE view = %s AND version = %s",
                (number, view, known.version),
            )
        connection.commit()
    return int(number)


def make_older_state(url: str, number: int) -> None:
    """The table of a state whose rows have keys, as it was."""
    with closing(handshake.connect(url, {}, application_name="tests")) as connection:
        connection.autocommit = False
        with connection.cursor() as cursor:
            cursor.execute(
                f"ALTER TABLE dyda.extent_{number} RENAME TO newer;"
                f" CREATE TABLE dyda.extent_{number} AS SELECT sha256(convert_to(ROW(n.*)::text, 'UTF8')) AS hash, n.*,"
                f" 1::bigint AS count FROM dyda.newer n; ALTER TABLE dyda.extent_{number} ADD PRIMARY KEY (hash);"
                f" CREATE INDEX ON dyda.extent_{number} (c1); DROP TABLE dyda.newer;"
                f" DELETE FROM dyda.form WHERE extent = {number}"
            )
        connection.commit()
