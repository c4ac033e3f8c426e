"""TLS settings of a url reach every connection: sessions at sources, Spark's scans, the warehouse, Spark's sinks."""

from __future__ import annotations

import os
import re
import ssl
import urllib.parse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg2.extensions
import pytest
import trustme

from dyda import commands
from dyda.engine import Engine
from dyda.errors import DydaError, SourceUnreachable, WarehouseUnreachable
from dyda.sources import PostgresSource, SourceSettings
from dyda.sources.reading.copy import ReadFailed, ScanPartition, read_partition
from dyda.sources.reading.session import connect
from dyda.warehouse import Warehouse
from dyda.warehouse.extents.copy_in import StagingSink
from tests.integration.security.gate import Gate
from tests.integration.sources.conftest import PROJECT
from tests.town import Town


class Authority:
    """A certificate authority with files that libpq reads, and a gate's side of TLS."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._authority = trustme.CA()
        self.file = folder / "ca.pem"
        self._authority.cert_pem.write_to_path(self.file)
        client = self._authority.issue_cert("dyda@client.example")
        self.certificate, self.key = folder / "client.pem", folder / "client.key"
        client.cert_chain_pems[0].write_to_path(self.certificate)
        client.private_key_pem.write_to_path(self.key)
        self.key.chmod(0o600)

    def context(self, name: str = "localhost", *, ask: bool = False) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._authority.issue_cert(name).configure_cert(context)
        if ask:
            self._authority.configure_trust(context)
            context.verify_mode = ssl.CERT_REQUIRED
        return context


@pytest.fixture(scope="module")
def authorities(tmp_path_factory: pytest.TempPathFactory) -> tuple[Authority, Authority]:
    folder = tmp_path_factory.mktemp("authorities")
    return Authority(folder / "right"), Authority(folder / "wrong")


@pytest.fixture
def gate(database: Callable[[str], str], server: Any) -> Iterator[Callable[..., tuple[Gate, Callable[..., str]]]]:
    """`gate(context)`: a gate to the shared server, and `url(database, **options)` for what is behind it."""
    made: list[Gate] = []

    def make(context: ssl.SSLContext | None) -> tuple[Gate, Callable[..., str]]:
        made.append(Gate(server.folder / ".s.PGSQL.5432", context))

        def url(behind: str, **options: object) -> str:
            name = psycopg2.extensions.parse_dsn(behind)["dbname"]
            more = urllib.parse.urlencode({"hostaddr": "127.0.0.1", **options})
            return f"postgresql://postgres@localhost:{made[-1].port}/{name}?{more}"

        return made[-1], url

    yield make
    for one in made:
        one.close()


def test_a_whole_life_over_verified_tls(
    tmp_path: Path, database: Callable[[str], str], gate: Any, authorities: Any, engine: Engine
) -> None:
    """Every path: psycopg2 and SQLAlchemy in the driver, scans and sinks in Spark's tasks."""
    right, wrong = authorities
    gate, url = gate(right.context(ask=True))
    options = {
        "sslmode": "verify-full",
        "sslrootcert": right.file,
        "sslcert": right.certificate,
        "sslkey": right.key,
        "gssencmode": "disable",
        "target_session_attrs": "read-write",
        "connect_timeout": 7,
    }
    town = Town(tmp_path / "town", lambda name: url(database(name), **options), engine)
    town.source("crm", "CREATE TABLE t (a int, b text)", "INSERT INTO t SELECT i, 'x' FROM generate_series(1, 20000) i")
    town.view("v", "SELECT t.a, t.b FROM crm.t t WHERE t.a > 100")
    setup = len(gate.connections)
    town.apply()
    town.execute("crm", "INSERT INTO t VALUES (0, 'y'), (30000, 'z')")
    town.settle()
    assert town.extent("v").total() == 19901
    assert all(answer["reachable"] for answer in commands.sources(town.folder))
    used = gate.connections[setup:]
    assert all(connection.encrypted and connection.certificate for connection in used)
    assert {"dyda", "dyda staging"} <= {connection.application for connection in used}

    # With another authority not one of them goes through, and each says why.
    mistrusting = {**options, "sslrootcert": wrong.file}
    before = len(gate.connections)
    paths = attempts(*(mistrustful(one, right, wrong) for one in (town.warehouse, town.sources["crm"])))
    assert len(paths) == 5
    for name, attempt in paths.items():
        with pytest.raises((DydaError, ReadFailed, psycopg2.OperationalError)) as refused:
            attempt()
        assert "certificate verify failed" in str(refused.value), name
    town.source_url("crm", url(town.sources["crm"], **mistrusting))
    (answer,) = commands.sources(town.folder)
    assert not answer["reachable"]
    assert "certificate verify failed" in answer["error"]
    rest = [connection for connection in gate.connections[before:] if connection.application != "dyda"]
    assert rest == [], "nobody but the driver's own sessions at the warehouse came through"
    town.close()


def mistrustful(url: str, right: Authority, wrong: Authority) -> str:
    trusted, other = (urllib.parse.quote_plus(str(one.file)) for one in (right, wrong))
    assert trusted in url
    return url.replace(trusted, other)


def attempts(warehouse: str, source: str) -> dict[str, Callable[[], object]]:
    """Every piece of code that opens a connection."""
    partition = ScanPartition("crm", "crm.t", source, "x", "SELECT 1", ("c",), 1.0, 1.0)
    return {
        "sessions": lambda: PostgresSource(SourceSettings("crm", source), PROJECT).relations(),
        "scans": lambda: read_partition(partition),
        "catalog": lambda: Warehouse.connect(warehouse),
        "lock": lambda: Warehouse(warehouse).lock(),
        "sinks": lambda: StagingSink(warehouse, "dyda", "staging_1", 1)(iter(())),
    }


def test_no_other_code_opens_connections() -> None:
    """Whoever adds one adds it above."""
    found = {
        str(file)
        for package in ("dyda", "vm", "vs", "va", "scheduler")
        for file in Path(package).rglob("*.py")
        if re.search(r"psycopg2\.connect\((?!connection_factory)|adbc|create_async_engine", file.read_text())
    }
    assert found == {
        "dyda/handshake.py",
        "dyda/commands/demo/run.py",  # embedded servers only
        "dyda/commands/demo/writers.py",
    }


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"sslmode": "verify-full"}, "does not match host name"),
        ({"sslmode": "verify-ca"}, ""),
        ({"sslmode": "require", "channel_binding": "require"}, "channel binding"),
        ({"sslmode": "require", "target_session_attrs": "standby"}, "standby"),
        ({"sslmode": "require", "ssl_min_protocol_version": "TLSv1.2", "ssl_max_protocol_version": "TLSv1.1"}, "SSL"),
    ],
)
def test_what_the_url_demands_is_kept(
    database: Callable[[str], str], gate: Any, authorities: Any, options: dict[str, str], said: str
) -> None:
    right, _ = authorities
    gate, url = gate(right.context("elsewhere.example"))
    behind = database("crm")
    source = PostgresSource(SourceSettings("crm", url(behind, sslrootcert=right.file, **options)), PROJECT)
    warehouse = url(behind, sslrootcert=right.file, **options)
    if not said:
        source.relations()
        Warehouse.connect(warehouse).close()
        assert all(connection.encrypted for connection in gate.connections)
    else:
        with pytest.raises(SourceUnreachable, match=said):
            source.relations()
        with pytest.raises(WarehouseUnreachable, match=said):
            Warehouse.connect(warehouse)
    source.close()


def test_a_server_without_tls_is_refused_where_tls_is_demanded(database: Callable[[str], str], gate: Any) -> None:
    gate, url = gate(None)
    behind = database("crm")
    with pytest.raises(SourceUnreachable, match="does not support SSL"):
        PostgresSource(SourceSettings("crm", url(behind, sslmode="require")), PROJECT).relations()
    assert gate.connections == []
    PostgresSource(SourceSettings("crm", url(behind, sslmode="prefer")), PROJECT).relations()
    assert [connection.encrypted for connection in gate.connections] == [False]


def test_the_urls_own_patience_wins(database: Callable[[str], str]) -> None:
    url = database("crm")
    for more, expected in (("", "10"), ("&connect_timeout=3&keepalives_idle=5&application_name=ours", "3")):
        connection = connect(url + more, 1.0, 1.0)
        assert connection.info.dsn_parameters["connect_timeout"] == expected
        assert connection.info.dsn_parameters["keepalives_idle"] == ("5" if more else "30")
        connection.close()


def test_a_private_key_that_others_can_read_is_refused(
    database: Callable[[str], str], gate: Any, authorities: Any
) -> None:
    """libpq looks at it itself; what it says names the file."""
    right, _ = authorities
    _, url = gate(right.context())
    target = url(database("crm"), sslmode="require", sslcert=right.certificate, sslkey=right.key)
    os.chmod(right.key, 0o644)
    try:
        with pytest.raises(SourceUnreachable, match=r"private key file .*client\.key.* has group or world access"):
            PostgresSource(SourceSettings("crm", target), PROJECT).relations()
    finally:
        os.chmod(right.key, 0o600)
