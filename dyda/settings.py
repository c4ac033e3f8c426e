"""dyda.toml: where a project's databases are, and how it runs.

Read once, checked completely, frozen. Nothing is guessed: an unknown setting, a missing environment variable or a value
of the wrong kind is an error that names the setting. A URL may hold a password, so no `repr` and no message shows one;
passwords.py says where passwords may come from.
"""

from __future__ import annotations

import difflib
import re
import shlex
import tomllib
import urllib.parse
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Literal, TypeVar, get_args, get_type_hints

from dyda.errors import ConfigurationError
from dyda.model.event import EVENTS, Level
from dyda.passwords import is_written_in, quoted_password

__all__ = [
    "EMBEDDED",
    "LONGEST_NAME",
    "DaemonSettings",
    "MaintenanceSettings",
    "NotifyEntry",
    "PreferenceSettings",
    "ProjectSettings",
    "Settings",
    "SourceEntry",
    "SparkSettings",
    "WarehouseSettings",
    "places_with_passwords",
    "read_toml",
    "without_password",
]

EMBEDDED = "embedded"
"""The URL that stands for a PostgreSQL server of DyDa's own."""

LONGEST_NAME = 63
"""Bytes in a PostgreSQL identifier; a longer one would be cut silently."""

SHORTEST, LONGEST = 0.001, 2_000_000
"""The range of time limits, in seconds."""

Value = TypeVar("Value")


@dataclass(frozen=True)
class WarehouseSettings:
    """Where extents live, and the schema in which readers find the views."""

    url: str = field(repr=False)
    schema: str = "public"
    password_file: str | None = None

    @property
    def embedded(self) -> bool:
        return self.url == EMBEDDED


@dataclass(frozen=True, kw_only=True)
class SourceEntry(WarehouseSettings):
    """One source. `schema` is what the short name `source.table` means; `log_limit` is in bytes.

    `trusted_owners` are roles there whose functions may run with the rights of the role that reads.
    """

    name: str
    log_limit: int = 10 * 2**30
    trusted_owners: tuple[str, ...] = ()


@dataclass(frozen=True)
class SparkSettings:
    """The engine. `numeric` is how plain numeric columns compute; `config` goes to Spark as it is. Up to `small_scan`
    bytes are read by this process, not by Spark's tasks."""

    master: str = "local[*]"
    timezone: str = "UTC"
    numeric: str = "decimal(38,18)"
    small_scan: int = 8 * 2**20
    config: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class MaintenanceSettings:
    """How units are cut, retried and timed; times in seconds."""

    consistency: Literal["strong", "complete"] = "strong"
    detection: Literal["pessimistic", "optimistic"] = "pessimistic"
    schema_changes: Literal["auto", "approve"] = "auto"
    batch_rows: int = 100_000
    max_aborts: int = 5
    lock_limit: float = 30.0
    lanes: int = 2
    lane_size: int = 16 * 2**20
    poll_min: float = 0.05
    poll_max: float = 1.0
    lock_timeout: float = 1.0
    statement_timeout: float = 60.0
    stale_after: float = 60.0


@dataclass(frozen=True)
class PreferenceSettings:
    """The preferences of a view that states none (E-SQL)."""

    extent: Literal["equivalent", "superset", "subset", "any"] = "equivalent"
    new_columns: Literal["ignore", "append"] = "ignore"
    dispensable: bool = False
    replaceable: bool = False


@dataclass(frozen=True)
class DaemonSettings:
    """`metrics` is host and port of the Prometheus endpoint; None: off."""

    metrics: tuple[str, int] | None = None


@dataclass(frozen=True)
class NotifyEntry:
    """Somebody who is told of events: a `webhook` or a `command`. `events` and `views` are patterns; no `events`:
    whatever is a warning or an error."""

    webhook: str | None = field(default=None, repr=False)
    command: str | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    events: tuple[str, ...] = ()
    views: tuple[str, ...] = ()

    @property
    def shown(self) -> str:
        """Who it is, without what may be a secret: of a webhook its host, of a command its program."""
        if self.webhook is not None:
            return f"webhook {urllib.parse.urlsplit(self.webhook).hostname}"
        return f"command {_program(self.command or '')}".rstrip()

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of events that it is told of."""
        if not self.events:
            return tuple(kind for kind, event in EVENTS.items() if event.level is not Level.INFO)
        return tuple(kind for kind in EVENTS if any(fnmatchcase(kind, pattern) for pattern in self.events))

    def concerns(self, kind: str, view: str | None) -> bool:
        """Whether it is told of such an event. One that concerns no view is for everybody."""
        wanted = view is None or not self.views or any(fnmatchcase(view, pattern) for pattern in self.views)
        return wanted and kind in self.kinds


@dataclass(frozen=True)
class ProjectSettings:
    """`id` identifies the project, whatever its folder is called; None: it was created by an older DyDa."""

    id: str | None = None


@dataclass(frozen=True)
class Settings:
    """A whole dyda.toml."""

    warehouse: WarehouseSettings
    sources: Mapping[str, SourceEntry]
    spark: SparkSettings = SparkSettings()
    maintenance: MaintenanceSettings = MaintenanceSettings()
    preferences: PreferenceSettings = PreferenceSettings()
    daemon: DaemonSettings = DaemonSettings()
    notify: tuple[NotifyEntry, ...] = ()
    project: ProjectSettings = field(default_factory=ProjectSettings, compare=False)
    """Not compared: a project that just got its id is no reason to restart its daemon."""

    @classmethod
    def parse(cls, text: str, environment: Mapping[str, str]) -> Settings:
        """Read the text of a dyda.toml; `${NAME}` is taken from `environment`."""
        document = read_toml(text, "dyda.toml")
        root = _Table("", document, environment)
        root.finish({"project", "warehouse", "sources", "spark", "maintenance", "preferences", "daemon", "notify"})
        settings = cls(
            warehouse=_warehouse(root.table("warehouse", required=True)),
            sources={name: _source(name, root.table("sources").table(name)) for name in root.table("sources").values},
            spark=_spark(root.table("spark")),
            maintenance=_maintenance(root.table("maintenance")),
            preferences=root.table("preferences").settings(PreferenceSettings),
            daemon=_daemon(root.table("daemon")),
            notify=tuple(map(_notify, root.tables("notify"))),
            project=_project(root.table("project")),
        )
        _refuse_shared_databases(settings)
        return settings


def read_toml(text: str, file: str) -> dict[str, Any]:
    """The document; an error names the file."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{file} is not valid TOML: {error}", "Correct that place.") from None
    except ValueError as error:  # a number of thousands of digits
        raise ConfigurationError(f"{file} cannot be read: {error}", "Write a shorter number.") from None
    except RecursionError:
        raise ConfigurationError(
            f"{file} cannot be read: its values are nested too deeply", "Nest them less."
        ) from None


def without_password(url: str) -> str:
    """The URL as it may be shown: user, host and database, no password and no query."""
    # The password first, up to the last @: an unencoded one may contain any character, even a question mark.
    shown = re.sub(r"(?<=://)([^:@/]*):.*@", r"\1@", url).partition("?")[0]
    return shown if "://" in url or url == EMBEDDED else "postgresql://…"


def _warehouse(table: _Table) -> WarehouseSettings:
    settings = WarehouseSettings(
        url=table.url(), schema=table.identifier("schema", "public"), password_file=table.password_file()
    )
    if settings.schema == "dyda":
        raise table.error("schema", "is 'dyda', which holds DyDa's own tables", "Choose another schema for readers.")
    table.finish()
    return settings


def _source(name: str, table: _Table) -> SourceEntry:
    if not name or "\x00" in name:
        raise ConfigurationError(f"dyda.toml: a source cannot be called {name!r}", "Give it a name: [sources.NAME].")
    entry = SourceEntry(
        name=name,
        url=table.url(),
        schema=table.identifier("schema", "public"),
        log_limit=table.size("log_limit", SourceEntry.log_limit),
        trusted_owners=table.texts("trusted_owners"),
        password_file=table.password_file(),
    )
    if entry.embedded and (name in {"warehouse", ".", ".."} or "/" in name or "\x00" in name):
        # Its server lives in .dyda/pg/NAME, next to the warehouse's.
        raise table.error("url", f"is embedded, but {name!r} cannot name its folder", "Rename the source.")
    table.finish()
    return entry


def _spark(table: _Table) -> SparkSettings:
    numeric = table.text("numeric", SparkSettings.numeric)
    shape = re.fullmatch(r"decimal\(([0-9]{1,2}),\s*([0-9]{1,2})\)", numeric.strip().lower())
    if shape is None or not 0 <= int(shape[2]) <= int(shape[1]) <= 38 or int(shape[1]) == 0:
        raise table.error(
            "numeric", f"is {table.written('numeric')}", "Write decimal(precision,scale) with a precision from 1 to 38."
        )
    config = table.table("config")
    settings = SparkSettings(
        master=table.text("master", SparkSettings.master),
        timezone=table.text("timezone", SparkSettings.timezone),
        numeric=f"decimal({int(shape[1])},{int(shape[2])})",
        small_scan=table.size("small_scan", SparkSettings.small_scan),
        config={name: config.scalar(name) for name in config.values},
    )
    config.finish()
    table.finish({"config"})
    return settings


def _maintenance(table: _Table) -> MaintenanceSettings:
    settings = table.settings(MaintenanceSettings, lanes=table.few, lane_size=table.size)
    if settings.poll_min > settings.poll_max:
        raise table.error("poll_min", f"is {settings.poll_min}, above poll_max", "Make poll_min the smaller one.")
    return settings


def _daemon(table: _Table) -> DaemonSettings:
    metrics = table.text("metrics", "")
    table.finish()
    if not metrics:
        return DaemonSettings()
    host, _, port = metrics.rpartition(":")
    if not host or re.fullmatch("[0-9]{1,5}", port) is None or int(port) > 65535:
        raise table.error("metrics", f"is {table.written('metrics')}", "Write host:port, for example 127.0.0.1:9464.")
    return DaemonSettings((host.removeprefix("[").removesuffix("]"), int(port)))


def _notify(table: _Table) -> NotifyEntry:
    headers = table.table("headers")
    entry = NotifyEntry(
        webhook=table.text("webhook", "") or None,
        command=table.text("command", "") or None,
        headers={name: headers.text(name, "") for name in headers.values},
        events=table.texts("events"),
        views=table.texts("views"),
    )
    headers.finish()
    table.finish({"headers"})
    if (entry.webhook is None) == (entry.command is None):
        raise table.error("webhook", "and command are given both, or neither", "Give one of them to each [[notify]].")
    if entry.webhook is not None:
        if not _is_http(entry.webhook):
            raise table.error("webhook", "is not an http or https URL", 'Write webhook = "https://…".')
    elif not (entry.command or "").strip():
        raise table.error("command", "is empty", "Write the command line to run.")
    for pattern in entry.events:
        if not any(fnmatchcase(kind, pattern) for kind in EVENTS):
            near = difflib.get_close_matches(pattern, EVENTS, n=3, cutoff=0.5)
            remedy = f"Did you mean {' or '.join(near)}?" if near else f"The kinds are: {', '.join(EVENTS)}."
            raise table.error("events", f"has {pattern!r}, which is no kind of event", remedy)
    return entry


def _program(command: str) -> str:
    """The program that a command line begins with; nothing if that is not plain: `TOKEN=… program` has a secret."""
    try:
        words = shlex.split(command)
    except ValueError:  # a quotation mark without its fellow
        return ""
    program = next((word for word in words if not re.match(r"\w+=", word)), "")
    return program if re.fullmatch(r"[\w./+-]+", program) else ""


def _is_http(url: str) -> bool:
    try:
        place = urllib.parse.urlsplit(url)
        return place.scheme in ("http", "https") and bool(place.hostname) and place.port != 0
    except ValueError:  # a port that is no number, half an IPv6 address
        return False


def _project(table: _Table) -> ProjectSettings:
    identity = table.text("id", "")
    table.finish()
    if identity and re.fullmatch(r"[\w.-]{1,100}", identity) is None:
        raise table.error("id", f"is {table.written('id')}", "Use up to 100 letters, digits, hyphens, dots and _.")
    return ProjectSettings(identity or None)


def places_with_passwords(text: str) -> Iterator[str]:
    """The tables of a valid dyda.toml whose url contains a password."""
    document = read_toml(text, "dyda.toml")
    if is_written_in(document["warehouse"]["url"]):
        yield "warehouse"
    for name, entry in document.get("sources", {}).items():
        if is_written_in(entry["url"]):
            yield f"sources.{name}"


def _refuse_shared_databases(settings: Settings) -> None:
    """Two entries for one database would share a log or a schema `dyda` and delete each other's rows (C7)."""
    urls = {"warehouse": settings.warehouse.url}
    urls |= {f"sources.{name}": entry.url for name, entry in settings.sources.items()}
    known: dict[str, str] = {}
    for place, url in urls.items():
        if url != EMBEDDED and known.setdefault(url, place) != place:
            raise ConfigurationError(
                f"dyda.toml: [{known[url]}] and [{place}] have the same url",
                "Each source and the warehouse need a database of their own; one source can serve several schemas.",
            )


class _Table:
    """One table of the file: returns checked values, and at the end knows which settings are unknown."""

    def __init__(self, place: str, values: Mapping[str, Any], environment: Mapping[str, str]) -> None:
        self.place = place
        self.values = values
        self.environment = environment
        self.asked: set[str] = set()

    def settings(self, kind: type[Value], **own: Callable[[str, Any], Any]) -> Value:
        """The whole table as a dataclass; each setting is read as its type says, or by a reader of its `own`."""
        readers: dict[type, Callable[[str, Any], Any]] = {bool: self.flag, int: self.count, float: self.seconds}
        values = {}
        for name, type_ in get_type_hints(kind).items():
            default, choices = getattr(kind, name), get_args(type_)
            reader = own.get(name) or readers.get(type_)
            values[name] = reader(name, default) if reader else self.choice(name, default, choices)
        self.finish()
        return kind(**values)

    def error(self, name: str, what: str, remedy: str) -> ConfigurationError:
        where = f"dyda.toml, [{self.place}]: " if self.place else "dyda.toml: "
        return ConfigurationError(f"{where}{name} {what}", remedy)

    def table(self, name: str, *, required: bool = False) -> _Table:
        place = f"{self.place}.{name}" if self.place else name
        value = self.values.get(name, {})
        if required and name not in self.values:
            raise ConfigurationError(f"dyda.toml has no [{place}]", f'Add [{place}] with url = "…" or "{EMBEDDED}".')
        if not isinstance(value, dict):
            raise ConfigurationError(f"dyda.toml: {place} is not a table", f"Write it as [{place}].")
        return _Table(place, value, self.environment)

    def tables(self, name: str) -> list[_Table]:
        """An array of tables."""
        value = self.values.get(name, [])
        if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
            raise ConfigurationError(f"dyda.toml: {name} is not an array of tables", f"Write it as [[{name}]].")
        return [_Table(f"[{name}]", entry, self.environment) for entry in value]

    def finish(self, tables: Collection[str] = ()) -> None:
        known = self.asked | set(tables)
        for name in self.values:
            if name not in known:
                near = difflib.get_close_matches(name, sorted(known), n=3, cutoff=0.6)
                remedy = (
                    f"Did you mean {' or '.join(near)}?" if near else f"Known settings: {', '.join(sorted(known))}."
                )
                raise self.error(name, "is not a setting", remedy)

    def url(self) -> str:
        if "url" not in self.values:
            raise self.error("url", "is missing", f'Write url = "postgresql://…" or url = "{EMBEDDED}".')
        url = self.text("url", "", quoted=r"(?<=:)\$\{([^}]*)\}(?=@)|(?<=password=)\$\{([^}]*)\}(?=&|$)")
        if url != EMBEDDED and not url.startswith(("postgresql://", "postgres://")):
            # The value is not shown: it may contain a password.
            raise self.error("url", "is not a PostgreSQL URL", f'Write "postgresql://user@host/db" or "{EMBEDDED}".')
        return url

    def password_file(self) -> str | None:
        file = self.text("password_file", "")
        if file and self.values.get("url") == EMBEDDED:
            raise self.error("password_file", "is not needed: an embedded server has no password", "Remove it.")
        return file or None

    def text(self, name: str, default: str, quoted: str = "") -> str:
        value = self._value(name, default, "a text", lambda v: v if isinstance(v, str) else None, quoted)
        if name in self.values and not value:
            raise self.error(name, "is empty", "Give it a value or remove it.")
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        def read(value: object) -> tuple[str, ...] | None:
            if not isinstance(value, list) or not all(isinstance(text, str) and text for text in value):
                return None
            return tuple(value)

        return self._value(name, (), 'a list of texts, such as ["shop_owner"]', read)

    def choice(self, name: str, default: str, choices: tuple[str, ...]) -> str:
        value = self.text(name, default)
        if value not in choices:
            raise self.error(name, f"is {self.written(name)}", f"Choose one of: {', '.join(choices)}.")
        return value

    def identifier(self, name: str, default: str) -> str:
        value = self.text(name, default)
        if len(value.encode()) > LONGEST_NAME:
            raise self.error(
                name, f"has more than {LONGEST_NAME} bytes", "PostgreSQL would truncate it: choose a shorter one."
            )
        return value

    def written(self, name: str) -> str:
        """The value as the file has it, for messages: neither the environment's values nor passwords may show."""
        value = str(self.values[name])
        return "a URL" if "://" in value else repr(value if len(value) <= 100 else value[:100] + "…")

    def flag(self, name: str, default: bool) -> bool:
        return self._value(name, default, "true or false", lambda v: v if isinstance(v, bool) else None)

    def count(self, name: str, default: int) -> int:
        return self._value(
            name,
            default,
            "a whole number from 1 to 2147483647",
            lambda v: v if type(v) is int and 0 < v < 2**31 else None,
        )

    def few(self, name: str, default: int) -> int:
        return self._value(
            name, default, "a whole number from 0 to 16", lambda v: v if type(v) is int and 0 <= v <= 16 else None
        )

    def seconds(self, name: str, default: float) -> float:
        def read(value: object) -> float | None:
            if not isinstance(value, int | float) or isinstance(value, bool):
                return None
            # PostgreSQL takes less than a millisecond for 0, which is no limit, and keeps limits in 32 bits.
            return float(value) if SHORTEST <= value <= LONGEST else None

        return self._value(name, default, f"a number of seconds from {SHORTEST} to {LONGEST}", read)

    def size(self, name: str, default: int) -> int:
        def read(value: object) -> int | None:
            if type(value) is int:
                return value if 0 < value < 2**63 else None
            if not isinstance(value, str | float):
                return None
            match = re.fullmatch(r"([0-9]{1,15}(?:\.[0-9]{1,15})?)\s*([KMGT]?)I?B?", str(value).strip().upper())
            number = int(float(match[1]) * 1024 ** " KMGT".index(match[2] or " ")) if match else 0
            return number if 0 < number < 2**63 else None

        return self._value(name, default, 'a size such as "10GB"', read)

    def scalar(self, name: str) -> str:
        """A value of Spark's own configuration, where everything is text."""

        def read(value: object) -> str | None:
            if isinstance(value, bool):
                return str(value).lower()
            # Python prints no integers of thousands of digits, which hexadecimal ones may have.
            small = not isinstance(value, int) or abs(value) < 2**63
            return str(value) if isinstance(value, str | int | float) and small else None

        return self._value(name, "", "a text, a number or true or false", read)

    def _value(
        self, name: str, default: Value, kind: str, read: Callable[[Any], Value | None], quoted: str = ""
    ) -> Value:
        """The setting as `read` returns it. Variables that `quoted` matches are passwords in a URL."""
        self.asked.add(name)
        if name not in self.values:
            return default
        value = self.values[name]
        if isinstance(value, str):
            passwords = {match.start() for match in re.finditer(quoted, value)} if quoted else set()

            def replaced(match: re.Match[str]) -> str:
                text = self._from_environment(name, match[1])
                return quoted_password(text) if match.start() in passwords else text

            value = re.sub(r"\$\{([^}]*)\}", replaced, value)
            # Bytes of the environment that are not UTF-8 arrive as lone surrogates.
            if re.search("[\x00\ud800-\udfff]", value):
                raise self.error(name, "is not valid: it contains a NUL or is not UTF-8", "Write it in UTF-8.")
        checked = read(value)
        if checked is None:
            raise self.error(name, f"is not {kind}", f"Write {kind}.")
        return checked

    def _from_environment(self, setting: str, variable: str) -> str:
        if variable not in self.environment:
            raise self.error(
                setting,
                f"needs the environment variable {variable!r}, which is not set",
                f"Set it: export {variable}=…" if variable.isidentifier() else "Write ${NAME}.",
            )
        return self.environment[variable]
