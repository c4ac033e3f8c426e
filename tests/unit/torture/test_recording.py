"""What a writer of the torture writes down about its transactions."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import psycopg2

from tests.torture.history import History
from tests.torture.recording import Data, Writer


def test_a_table_that_was_written_without_a_change_was_written(database: Callable[[str], str]) -> None:
    """Its readers may wait with the message, although no row is another one."""
    url = database("shop")
    with closing(psycopg2.connect(url)) as connection, connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE item (id int, t text); CREATE TABLE other (n int); INSERT INTO other VALUES (1)")
    history = History(1, "", "strong")
    writer = Writer(history, "shop", url)
    try:
        assert writer.transaction([Data("INSERT INTO item VALUES (1, 'a')")])
        assert writer.transaction([Data("UPDATE item SET t = 'a'"), Data("UPDATE other SET n = 2")])
        assert writer.transaction([Data("UPDATE item SET t = 'b' WHERE id = 7")])
    finally:
        writer.close()
    first, second, third = history.transactions
    (item,) = first.tables
    (other,) = second.tables - {item}
    assert second.effects == {item: {}, other: {"(1)": -1, "(2)": 1}}
    assert third.tables == set()
