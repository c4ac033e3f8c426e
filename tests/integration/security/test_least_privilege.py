"""The roles of docs/how-to/security.md, made with the very statements that stand there, through a whole life."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg2
import pytest

from dyda import commands
from dyda.engine import Engine
from dyda.errors import MissingRights
from tests.conftest import VERSION
from tests.integration.sources.conftest import as_role
from tests.recompute_oracle import printed
from tests.town import Town

PAGE = Path("docs/how-to/security.md").read_text()
BLOCKS = dict(re.findall(r"```sql\n-- (.*?)\n(.*?)```", PAGE, re.S))


class Estate:
    """A server with two databases, shop and warehouse, whose superuser does only what the page tells him to."""

    def __init__(self, server: Any) -> None:
        self.server = server
        self.run("postgres", "CREATE ROLE shop_owner", "CREATE ROLE app LOGIN", "CREATE ROLE analyst LOGIN")
        for name in ("shop", "warehouse", "judge"):
            self.run("postgres", f"CREATE DATABASE {name}")
        self.run(
            "shop",
            "GRANT CREATE ON SCHEMA public TO shop_owner",
            "SET ROLE shop_owner",
            "CREATE TABLE customer (id int PRIMARY KEY, name text)",
            "CREATE TABLE sale (customer int, amount numeric(9, 2)) PARTITION BY RANGE (customer)",
            "CREATE TABLE sale_1 PARTITION OF sale FOR VALUES FROM (0) TO (100)",
            "INSERT INTO customer VALUES (1, 'Ann'), (2, 'Bob')",
            "INSERT INTO sale VALUES (1, 9.5)",
            # What an owner may do at any time: his function is evaluated whenever the tables are read.
            "CREATE FUNCTION trap(int) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN"
            " IF current_setting('application_name') = 'dyda' AND current_user NOT LIKE 'dyda\\_reader\\_%' THEN"
            " RAISE EXCEPTION 'trapped as %', current_user; END IF; RETURN true; END $$",
            "CREATE INDEX ON customer (id) WHERE trap(1)",
            "CREATE INDEX ON sale (amount) WHERE trap(1)",
            "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO app",
        )

    def url(self, database: str, role: str | None = None) -> str:
        url = self.server.url(database)
        return as_role(url, role, "x") if role else url

    def run(self, database: str, *statements: str, role: str | None = None) -> None:
        connection = psycopg2.connect(self.url(database, role))
        connection.autocommit = True
        with connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
        connection.close()

    def capture_role(self, database: str) -> str:
        (name,) = printed(
            self.url(database), "SELECT 'dyda_capture_' || oid FROM pg_database WHERE datname = current_database()"
        )
        return str(name)

    def reader_role(self, database: str) -> str:
        return self.capture_role(database).replace("capture", "reader")

    def follow_the_page(self, database: str, block: str, role: str | None = None) -> None:
        self.run(database, BLOCKS[block], role=role)


@pytest.fixture
def estate(new_server: Callable[..., Any]) -> Estate:
    return Estate(new_server(fsync="off"))


@pytest.fixture
def town(estate: Estate, tmp_path: Path, engine: Engine) -> Iterator[Town]:
    """A project whose warehouse is reached as dyda_warehouse. The judge is a bystander with all rights."""
    estate.follow_the_page("warehouse", "at the warehouse")
    estate.follow_the_page("warehouse", "at the warehouse, as dyda_warehouse", role="dyda_warehouse")
    roles = {"warehouse": "dyda_warehouse"}
    found = Town(tmp_path, lambda name: estate.url(name, roles.get(name)), engine)
    found.view("sales", "SELECT c.name, s.amount FROM shop.customer c JOIN shop.sale s ON s.customer = c.id")
    found.view("total", "SELECT s.customer, sum(s.amount) AS total FROM shop.sale s GROUP BY s.customer")
    yield found
    found.close()


def levels(town: Town, level: str) -> list[dict[str, Any]]:
    return [finding for finding in commands.sources_check(town.folder) if finding["level"] == level]


def test_a_whole_life_without_a_superuser(estate: Estate, town: Town) -> None:
    estate.follow_the_page("shop", "at the source")
    town.source("shop", url=estate.url("shop", "dyda"))
    town.apply()
    town.check()
    assert not levels(town, "error")
    (warning,) = levels(town, "warning")
    assert "no event triggers" in warning["what"], "the one thing that a superuser could add"
    owners = printed(estate.url("shop"), "SELECT DISTINCT tableowner FROM pg_tables WHERE schemaname = 'dyda'")
    assert owners == {estate.capture_role("shop"): 1}

    # What could be taken away again is not needed.
    estate.follow_the_page("shop", "at the source, after `dyda apply`")
    estate.run("shop", "INSERT INTO sale VALUES (2, 1), (2, 1)", "DELETE FROM customer WHERE id = 1", role="app")
    town.settle()
    town.check()
    town.apply()

    # Schema changes are found by comparison; nobody at the source has to do anything about it.
    estate.run("shop", "SET ROLE shop_owner", "ALTER TABLE customer RENAME name TO label", "ALTER TABLE sale ADD x int")
    estate.run("shop", "INSERT INTO customer VALUES (1, 'Eve')", role="app")
    town.settle()
    assert [town.state(name)["state"] for name in ("sales", "total")] == ["fresh", "fresh"]
    town.check_definitions("sales", "total")

    # A new table needs the owner's rights again: `check` prints the GRANT, and `apply` says so.
    estate.run("shop", "SET ROLE shop_owner", "CREATE TABLE note (a int)", "GRANT SELECT ON note TO dyda")
    town.view("notes", "SELECT n.a FROM shop.note n")
    with pytest.raises(MissingRights, match="permission denied for table note"):
        town.apply()
    (error,) = levels(town, "error")
    assert error["remedy"] == 'GRANT "shop_owner" TO "dyda";'
    estate.run("shop", error["remedy"])
    town.apply()
    estate.run("shop", "SET ROLE shop_owner", "INSERT INTO note VALUES (1)")
    town.settle()
    assert town.extent("notes") == Counter({"1": 1})

    # Readers see views and nothing else; what they were given survives new versions.
    analyst = estate.url("warehouse", "analyst")
    assert printed(analyst, "SELECT * FROM public.sales") == town.extent("sales")
    # Before PostgreSQL 15 everybody may create tables in schema public, unless it is revoked.
    creating = ["CREATE TABLE public.x (a int)"] if VERSION >= 15 else []
    for denied in ("SELECT * FROM dyda.view", "DELETE FROM dyda.message", *creating):
        with pytest.raises(psycopg2.errors.InsufficientPrivilege):
            estate.run("warehouse", denied, role="analyst")

    # And leaving without a trace.
    commands.sources_detach(town.folder, "shop")
    assert not printed(estate.url("shop"), "SELECT nspname FROM pg_namespace WHERE nspname = 'dyda'")
    assert not printed(estate.url("shop"), "SELECT tgname FROM pg_trigger WHERE NOT tgisinternal")
    left = f"SELECT objid FROM pg_shdepend WHERE refobjid = '{estate.reader_role('shop')}'::regrole AND dbid <> 0"
    assert not printed(estate.url("shop"), left)
    assert town.extent("notes") == Counter({"1": 1})


def test_a_superuser_attaches_and_a_reader_does_the_rest(estate: Estate, town: Town) -> None:
    town.source("shop", url=estate.url("shop"))
    town.apply()
    estate.follow_the_page("shop", "at the source, after `dyda apply` as a superuser")
    town.source_url("shop", estate.url("shop", "dyda"))
    assert not levels(town, "error") + levels(town, "warning")
    estate.run("shop", "INSERT INTO sale VALUES (2, 7)", role="app")
    town.settle()
    town.check()
    # Event triggers follow a new partition and a renamed column, in the transaction that made them.
    estate.run(
        "shop",
        "SET ROLE shop_owner",
        "CREATE TABLE sale_2 PARTITION OF sale FOR VALUES FROM (100) TO (200)",
        "INSERT INTO sale_2 VALUES (150, 3)",
        "ALTER TABLE customer RENAME name TO label",
    )
    town.settle()
    town.check_definitions("sales", "total")
    assert town.state("sales")["version"] == 2, "adapted, not built again"
    town.view("names", "SELECT c.label FROM shop.customer c")
    town.apply()
    town.check("names")
    # A new table needs the superuser once more: `check` says so before, `apply` says the same and changes nothing.
    estate.run("shop", "SET ROLE shop_owner", "CREATE TABLE note (a int)", "GRANT SELECT ON note TO dyda")
    town.view("notes", "SELECT n.a FROM shop.note n")
    (error,) = levels(town, "error")
    assert "dyda may not add tables to capture" in error["what"]
    with pytest.raises(MissingRights, match="dyda may not add tables to capture") as refused:
        town.apply()
    assert (
        refused.value.remedy
        == error["remedy"]
        == ("Run `dyda apply` once with a superuser's url; after that, dyda can do the rest.")
    )
    town.source_url("shop", estate.url("shop"))
    town.apply()
    town.source_url("shop", estate.url("shop", "dyda"))
    assert not levels(town, "error") + levels(town, "warning")
    estate.run("shop", "SET ROLE shop_owner", "INSERT INTO note VALUES (1)")
    town.settle()
    town.apply()
    assert town.extent("notes") == Counter({"1": 1})
    for denied in ("SELECT * FROM dyda.log", f"SET ROLE {estate.capture_role('shop')}", "DELETE FROM customer"):
        with pytest.raises(psycopg2.errors.InsufficientPrivilege):
            estate.run("shop", denied, role="dyda")
    with pytest.raises(MissingRights):
        commands.sources_detach(town.folder, "shop")


def test_a_plain_role_attaches_and_a_superuser_adds_event_triggers(estate: Estate, town: Town) -> None:
    """As `check` proposes it. From then on the plain role must not be able to replace what the superuser runs."""
    capture = estate.capture_role("shop")
    tables = "SELECT DISTINCT tableowner FROM pg_tables WHERE schemaname = 'dyda'"

    def apply_as(role: str | None, view: str) -> None:
        town.source_url("shop", estate.url("shop", role))
        town.view(view, "SELECT c.id FROM shop.customer c")
        town.apply()

    estate.follow_the_page("shop", "at the source")
    town.source("shop", url=estate.url("shop", "dyda"))
    town.apply()
    assert printed(estate.url("shop"), tables) == {capture: 1}
    apply_as(None, "one")
    assert printed(estate.url("shop"), tables) == {"postgres": 1}, "dyda could act as the capture role"

    town.source_url("shop", estate.url("shop", "dyda"))
    (error,) = levels(town, "error")
    estate.run("shop", error["remedy"])
    (warning,) = levels(town, "warning")
    assert warning["remedy"] == f'REVOKE {capture} FROM "dyda" CASCADE;'
    estate.run("shop", warning["remedy"])
    (warning,) = levels(town, "warning")
    assert warning["remedy"] == "Run `dyda apply` as a role that may install capture."
    apply_as(None, "two")
    assert printed(estate.url("shop"), tables) == {capture: 1}
    apply_as("dyda", "three")
    assert not levels(town, "error") + levels(town, "warning")
    estate.run("shop", "INSERT INTO sale VALUES (2, 7)", role="app")
    town.settle()
    town.check()
    with pytest.raises(psycopg2.errors.InsufficientPrivilege):
        estate.run("shop", "SELECT * FROM dyda.log", role="dyda")


TRUSTING = '-- or, to let them do whatever this role may: trusted_owners = ["shop_owner"] under [sources.shop]'
MISSING = {
    "REVOKE CREATE ON DATABASE shop FROM dyda": 'GRANT CREATE ON DATABASE "shop" TO "dyda";',
    "REVOKE shop_owner FROM dyda": 'GRANT "shop_owner" TO "dyda";',
    "REVOKE {capture} FROM dyda": 'GRANT {capture} TO "dyda";',
    "DROP ROLE {capture}": 'CREATE ROLE {capture} NOLOGIN;\nGRANT {capture} TO "dyda";',
    "ALTER ROLE {capture} LOGIN": "ALTER ROLE {capture} NOLOGIN NOSUPERUSER;",
    "REVOKE {reader} FROM dyda": 'GRANT {reader} TO "dyda";\n' + TRUSTING,
    "DROP ROLE {reader}": 'CREATE ROLE {reader} NOLOGIN;\nGRANT {reader} TO "dyda";\n' + TRUSTING,
    "REVOKE USAGE ON SCHEMA public FROM PUBLIC": 'GRANT USAGE ON SCHEMA "public" TO "dyda";',
    "REVOKE shop_owner FROM dyda; REVOKE SELECT ON customer FROM dyda": (
        'GRANT SELECT ON TABLE "public"."customer" TO "dyda";'
    ),
    "ALTER TABLE customer FORCE ROW LEVEL SECURITY, ENABLE ROW LEVEL SECURITY": "ALTER ROLE {reader} BYPASSRLS;",
}


def test_check_prints_each_statement_that_is_missing(estate: Estate, town: Town) -> None:
    """Before anything is attached, and run as it is printed, each statement mends what it is about."""
    estate.follow_the_page("shop", "at the source")
    town.source("shop", url=estate.url("shop", "dyda"))
    estate.run("shop", "GRANT SELECT ON ALL TABLES IN SCHEMA public TO dyda")
    town.view("total", "SELECT c.id FROM shop.customer c")

    def remedies() -> list[str]:
        return [finding["remedy"] for finding in commands.sources_check(town.folder) if finding["remedy"]]

    before = [remedy for remedy in remedies() if "superuser" not in remedy]
    assert before == []
    names = {"capture": estate.capture_role("shop"), "reader": estate.reader_role("shop")}
    for taken, said in [(taken.format(**names), said.format(**names)) for taken, said in MISSING.items()]:
        estate.run("shop", taken)
        assert said in remedies(), taken
        for _ in range(3):
            for remedy in remedies():
                if "superuser" not in remedy:
                    estate.run("shop", remedy)
        assert [remedy for remedy in remedies() if "superuser" not in remedy] == [], taken
