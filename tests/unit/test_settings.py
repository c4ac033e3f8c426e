"""dyda.toml and the project folder: what is read, what is refused, and that no password is ever shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from dyda.errors import ConfigurationError
from dyda.project import Project
from dyda.settings import Settings, without_password

MINIMAL = '[warehouse]\nurl = "embedded"\n'

FULL = """
[warehouse]
url = "postgresql://dw:${DW_PASSWORD}@dw.example/warehouse"
schema = "mart"

[sources.crm]
url = "postgresql://crm.example/crm"
schema = "sales"
log_limit = "512MB"
trusted_owners = ["shop_owner"]

[sources."Old Stock"]
url = "embedded"

[spark]
master = "spark://master:7077"
timezone = "UTC"
numeric = "DECIMAL(30, 10)"
config = { "spark.executor.memory" = "4g", "spark.executor.cores" = 2, "spark.speculation" = false }

[maintenance]
consistency = "complete"
detection = "optimistic"
schema_changes = "approve"
batch_rows = 5
max_aborts = 2
lock_limit = 2.5
lanes = 0
lane_size = "1MB"
poll_min = 1
poll_max = 2.5
lock_timeout = 0.5
statement_timeout = 10

[preferences]
extent = "any"
new_columns = "append"
dispensable = true
replaceable = true

[daemon]
metrics = "127.0.0.1:9464"
"""


def parse(text: str, **environment: str) -> Settings:
    return Settings.parse(text, environment)


def test_everything_the_interface_names_is_read() -> None:
    settings = parse(FULL, DW_PASSWORD="s3cret")
    assert settings.warehouse.url == "postgresql://dw:s3cret@dw.example/warehouse"
    assert settings.warehouse.schema == "mart"
    assert not settings.warehouse.embedded
    assert list(settings.sources) == ["crm", "Old Stock"]
    assert settings.sources["crm"].log_limit == 512 * 2**20
    assert settings.sources["crm"].trusted_owners == ("shop_owner",)
    assert settings.sources["crm"].schema == "sales"
    assert settings.sources["Old Stock"].embedded
    assert settings.spark.numeric == "decimal(30,10)"
    assert settings.spark.config == {
        "spark.executor.memory": "4g",
        "spark.executor.cores": "2",
        "spark.speculation": "false",
    }
    assert settings.maintenance.consistency == "complete"
    assert (settings.maintenance.poll_min, settings.maintenance.poll_max) == (1.0, 2.5)
    assert (settings.maintenance.lanes, settings.maintenance.lane_size) == (0, 2**20)
    assert settings.preferences.dispensable
    assert settings.daemon.metrics == ("127.0.0.1", 9464)


def test_defaults() -> None:
    settings = parse(MINIMAL)
    assert settings.sources == {}
    assert settings.spark.numeric == "decimal(38,18)"
    assert settings.maintenance.batch_rows == 100_000
    assert settings.maintenance.max_aborts == 5
    assert settings.maintenance.lanes == 2
    assert (settings.maintenance.poll_min, settings.maintenance.poll_max) == (0.05, 1.0)
    assert (settings.maintenance.lock_timeout, settings.maintenance.statement_timeout) == (1.0, 60.0)
    assert settings.preferences.extent == "equivalent"
    assert settings.daemon.metrics is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x =", "dyda.toml is not valid TOML: Invalid value (at end of document)\nCorrect that place."),
        ("", 'dyda.toml has no [warehouse]\nAdd [warehouse] with url = "…" or "embedded".'),
        ("[warehous]\nurl = 'embedded'", "dyda.toml: warehous is not a setting\nDid you mean warehouse?"),
        ("[warehouse]", 'dyda.toml, [warehouse]: url is missing\nWrite url = "postgresql://…" or url = "embedded".'),
        (
            MINIMAL + "[maintenance]\nbatch_row = 3",
            "dyda.toml, [maintenance]: batch_row is not a setting\nDid you mean batch_rows?",
        ),
        (
            MINIMAL + "[daemon]\nzzz = 3",
            "dyda.toml, [daemon]: zzz is not a setting\nKnown settings: metrics.",
        ),
        (
            MINIMAL + "[sources.crm]\nurl = 'embedded'\nschemas = 'x'",
            "dyda.toml, [sources.crm]: schemas is not a setting\nDid you mean schema?",
        ),
        (
            MINIMAL + "sources = 3",
            "dyda.toml, [warehouse]: sources is not a setting\nKnown settings: password_file, schema, url.",
        ),
        ("sources = 3\n" + MINIMAL, "dyda.toml: sources is not a table\nWrite it as [sources]."),
        (
            MINIMAL + "[sources.crm]\nurl = 'postgresql://u:${CRM_PASSWORD}@h/d'",
            "dyda.toml, [sources.crm]: url needs the environment variable 'CRM_PASSWORD', which is not set\n"
            "Set it: export CRM_PASSWORD=…",
        ),
        (
            MINIMAL + "[sources.crm]\nurl = 'mysql://u:hidden@h/d'",
            'dyda.toml, [sources.crm]: url is not a PostgreSQL URL\nWrite "postgresql://user@host/db" or "embedded".',
        ),
        (
            MINIMAL + f"[sources.crm]\nurl = 'embedded'\nlog_limit = [0x{'f' * 5000}]",
            'dyda.toml, [sources.crm]: log_limit is not a size such as "10GB"\nWrite a size such as "10GB".',
        ),
        (
            MINIMAL + f"[spark.config]\n'spark.x' = 0x{'f' * 5000}",
            "dyda.toml, [spark.config]: spark.x is not a text, a number or true or false\n"
            "Write a text, a number or true or false.",
        ),
        (
            MINIMAL + "[sources.crm]\nurl = 'embedded'\nlog_limit = '10 parsecs'",
            'dyda.toml, [sources.crm]: log_limit is not a size such as "10GB"\nWrite a size such as "10GB".',
        ),
        (
            MINIMAL + "[sources.crm]\nurl = 'embedded'\ntrusted_owners = 'shop_owner'",
            'dyda.toml, [sources.crm]: trusted_owners is not a list of texts, such as ["shop_owner"]\n'
            'Write a list of texts, such as ["shop_owner"].',
        ),
        (
            MINIMAL + "[maintenance]\nconsistency = 'weak'",
            "dyda.toml, [maintenance]: consistency is 'weak'\nChoose one of: strong, complete.",
        ),
        (
            MINIMAL + "[maintenance]\nmax_aborts = true",
            "dyda.toml, [maintenance]: max_aborts is not a whole number from 1 to 2147483647\n"
            "Write a whole number from 1 to 2147483647.",
        ),
        (
            MINIMAL + "[maintenance]\nlock_timeout = '1s'",
            "dyda.toml, [maintenance]: lock_timeout is not a number of seconds from 0.001 to 2000000\n"
            "Write a number of seconds from 0.001 to 2000000.",
        ),
        (
            MINIMAL + "[maintenance]\npoll_min = 3",
            "dyda.toml, [maintenance]: poll_min is 3.0, above poll_max\nMake poll_min the smaller one.",
        ),
        (
            MINIMAL + "[preferences]\ndispensable = 'yes'",
            "dyda.toml, [preferences]: dispensable is not true or false\nWrite true or false.",
        ),
        (
            MINIMAL + "[spark]\nnumeric = 'decimal(39,2)'",
            "dyda.toml, [spark]: numeric is 'decimal(39,2)'\n"
            "Write decimal(precision,scale) with a precision from 1 to 38.",
        ),
        (
            MINIMAL + "[daemon]\nmetrics = '9464'",
            "dyda.toml, [daemon]: metrics is '9464'\nWrite host:port, for example 127.0.0.1:9464.",
        ),
        (
            MINIMAL + "[sources.warehouse]\nurl = 'embedded'",
            "dyda.toml, [sources.warehouse]: url is embedded, but 'warehouse' cannot name its folder\n"
            "Rename the source.",
        ),
        (
            MINIMAL + "[sources.'../x']\nurl = 'embedded'",
            "dyda.toml, [sources.../x]: url is embedded, but '../x' cannot name its folder\nRename the source.",
        ),
        (
            '[warehouse]\nurl = "embedded"\nschema = "dyda"',
            "dyda.toml, [warehouse]: schema is 'dyda', which holds DyDa's own tables\n"
            "Choose another schema for readers.",
        ),
    ],
)
def test_bad_settings_are_named(text: str, message: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        parse(text)
    assert str(refused.value) == message


def test_C7_one_database_cannot_be_two_entries() -> None:
    text = "[warehouse]\nurl = 'postgresql://u:hidden@h/d'\n[sources.a]\nurl = 'postgresql://u:hidden@h/d'"
    with pytest.raises(ConfigurationError, match=r"\[warehouse\] and \[sources\.a\] have the same url") as refused:
        parse(text)
    assert "hidden" not in str(refused.value)


def test_a_password_is_never_shown(tmp_path: Path) -> None:
    settings = parse(FULL.replace('"4g"', '"${DW_PASSWORD}"'), DW_PASSWORD="s3cr?t@x")
    shown = [repr(settings), str(settings), repr(settings.warehouse), repr(settings.sources), repr(settings.spark)]
    shown.append(repr(Project(tmp_path, settings, {})))
    shown.append(without_password(settings.warehouse.url))
    assert not any("s3cr" in text or "t@x" in text for text in shown)
    assert without_password("postgresql://dw@h:5432/db?password=s3cret") == "postgresql://dw@h:5432/db"
    assert without_password("host=h password=s3cret") == "postgresql://…"
    assert without_password("embedded") == "embedded"


def test_the_environment_cannot_change_the_file_s_structure() -> None:
    settings = parse('[warehouse]\nurl = "embedded"\nschema = "${S}"', S='x"\n[sources.evil]\nurl = "embedded"')
    assert settings.sources == {}
    assert settings.warehouse.schema.startswith("x")


def test_create_gives_a_project_that_loads_and_refuses_to_overwrite(tmp_path: Path) -> None:
    project = Project.create(tmp_path / "new" / "pro ject")
    assert project == Project.load(tmp_path / "new" / "pro ject")
    assert project.settings.warehouse.embedded
    assert project.view_files == {}
    assert (project.folder / ".gitignore").read_text() == ".dyda/\n"
    assert project.server_folder("warehouse") == project.folder / ".dyda" / "pg" / "warehouse"
    with pytest.raises(ConfigurationError, match="is a DyDa project already"):
        Project.create(project.folder)


def test_view_names_are_file_names_whatever_they_are(tmp_path: Path) -> None:
    project = Project.create(tmp_path)
    names = ["plain", "With Capitals", 'quo"te', "back`tick", "dotted.name", "Größe 100%", "n" * 63]
    for name in names:
        (tmp_path / "views" / f"{name}.sql").write_text(f"-- {name}\r\n", encoding="utf-8", newline="")
    (tmp_path / "views" / ".#plain.sql").write_text("an editor's lock")
    (tmp_path / "views" / "notes.txt").write_text("no view")
    project = Project.load(tmp_path)
    assert list(project.view_files) == sorted(names)
    assert project.view_files["plain"].startswith("-- plain")


def test_bad_folders_and_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"is not a DyDa project: it has no dyda\.toml"):
        Project.load(tmp_path)
    Project.create(tmp_path)
    (tmp_path / "views" / ("é" * 32 + ".sql")).write_text("SELECT 1")
    with pytest.raises(ConfigurationError, match="a view's name has at most 63 bytes"):
        Project.load(tmp_path)
    (tmp_path / "views" / ("é" * 32 + ".sql")).unlink()
    (tmp_path / "views" / "latin.sql").write_bytes("SELECT 'é'".encode("latin-1"))
    with pytest.raises(ConfigurationError, match=r"views/latin\.sql is not UTF-8"):
        Project.load(tmp_path)


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path: Path) -> None:
    Project.create(tmp_path)
    (tmp_path / "views" / "v.sql").write_bytes(b"\xef\xbb\xbfSELECT 1")
    assert Project.load(tmp_path).view_files["v"] == "SELECT 1"


NOTIFY = """
[[notify]]
webhook = "https://hooks.example/${TOKEN}"
headers = { Authorization = "Bearer ${TOKEN}" }
events = ["view.*", "source.lost"]
views = ["asia_*"]

[[notify]]
command = "mail ops"
"""


def test_notifications() -> None:
    first, second = Settings.parse(MINIMAL + NOTIFY, {"TOKEN": "s3cr3t"}).notify
    assert (first.webhook, first.headers) == ("https://hooks.example/s3cr3t", {"Authorization": "Bearer s3cr3t"})
    assert "s3cr3t" not in repr(first) + first.shown
    assert first.shown == "webhook hooks.example"
    assert {"view.broken", "view.built", "source.lost"} <= set(first.kinds)
    assert "source.back" not in first.kinds
    assert first.concerns("view.broken", "asia_1")
    assert not first.concerns("view.broken", "europe")
    assert first.concerns("source.lost", None)
    assert second.shown == "command mail"
    assert {"view.broken", "message.approval"} <= set(second.kinds)
    assert not {"unit.installed", "view.built"} & set(second.kinds)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("notify = 3\n" + MINIMAL, "dyda.toml: notify is not an array of tables\nWrite it as [[notify]]."),
        (MINIMAL + "[notify]\ncommand = 'x'", "dyda.toml: notify is not an array of tables\nWrite it as [[notify]]."),
        (
            MINIMAL + "[[notify]]\nevents = ['view.broken']",
            "dyda.toml, [[notify]]: webhook and command are given both, or neither\n"
            "Give one of them to each [[notify]].",
        ),
        (
            MINIMAL + "[[notify]]\nwebhook = 'ftp://x/secret'",
            'dyda.toml, [[notify]]: webhook is not an http or https URL\nWrite webhook = "https://…".',
        ),
        (
            MINIMAL + "[[notify]]\nwebhook = 'http://[::1/x'",
            'dyda.toml, [[notify]]: webhook is not an http or https URL\nWrite webhook = "https://…".',
        ),
        (
            MINIMAL + "[[notify]]\ncommand = 'x'\nevents = ['view.brokn']",
            "dyda.toml, [[notify]]: events has 'view.brokn', which is no kind of event\nDid you mean view.broken",
        ),
        (
            MINIMAL + "[[notify]]\nwebhok = 'x'",
            "dyda.toml, [[notify]]: webhok is not a setting\nDid you mean webhook",
        ),
    ],
)
def test_notifications_that_are_wrong(text: str, message: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        Settings.parse(text, {})
    assert str(raised.value).startswith(message)
    assert "secret" not in str(raised.value)
