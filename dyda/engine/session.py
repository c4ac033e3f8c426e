"""The Spark sessions: one with small-job settings for maintenance units, one for builds and large batches.

Both live in one Spark application. The settings in REQUIRED give view SQL its meaning and cannot be configured away.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, Protocol

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from dyda.engine.class_archive import OPTIONS_OF_JAVA, archive_file, reading_options
from dyda.engine.java import find_java_home
from dyda.errors import ConfigurationError, EngineFailed

__all__ = ["Sessions", "SparkSettingsLike"]

OPTIONS = "spark.driver.extraJavaOptions"
QUIET = Path(__file__).resolve().parent / "log4j2.properties"

REQUIRED = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "true",
    "spark.sql.decimalOperations.allowPrecisionLoss": "false",
    "spark.sql.parser.escapedStringLiterals": "false",
    # '${env:HOME}' in a view is a text, not a look into this machine's environment.
    "spark.sql.variable.substitute": "false",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.sql.execution.arrow.useLargeVarTypes": "false",
    # `a > 0 AND nullif(1 % a, 5) < 3`: what NULLIF reads twice is computed where it is written. Otherwise it
    # is computed before, for every row, and fails for one that never gets there, unless it is in a CASE, as it is when
    # several views are asked at once. So whether a row can be computed would depend on what else a unit changes.
    "spark.sql.alwaysInlineCommonExpr": "true",
    # For the same reason: what is written twice on the right of an AND would be computed first, for every row.
    "spark.sql.subexpressionElimination.enabled": "false",
}

DEFAULTS = {
    "spark.app.name": "dyda",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # For its user interface, shown or not, Spark keeps the plans of a thousand queries. Those of a unit with many views
    # are megabytes each: the driver would run out of memory after a few units.
    "spark.sql.ui.retainedExecutions": "5",
    # The texts of those plans are never read; the short form takes a tenth off the time of a small query.
    "spark.sql.ui.explainMode": "simple",
    "spark.ui.retainedJobs": "20",
    "spark.ui.retainedStages": "20",
    "spark.ui.retainedTasks": "1000",
    # A unit of a few rows does not wait until a build beside it (`Engine.beside`) has ended.
    "spark.scheduler.mode": "FAIR",
    # The rows of one transaction, however many, travel with the tasks that compute over them.
    "spark.rpc.message.maxSize": "1024",
}

LOCAL = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    # Other users of the machine can reach the driver's port: it demands a secret, which it generates itself.
    "spark.authenticate": "true",
    # Half the processor time until the first result, and no loss in a join of millions of rows: Spark generates new
    # code for each query, which the optimizing compiler seldom gets to see.
    # Out of memory, Spark gives up its context and its callers wait forever: the end of the process is noticed.
    OPTIONS: "-XX:TieredStopAtLevel=1 -XX:+UseParallelGC -XX:-UsePerfData -XX:+ExitOnOutOfMemoryError",
}

AT_LAUNCH = ("spark.master", "spark.app.name", "spark.driver.", "spark.jars", "spark.submit.", "spark.archives")
"""Settings that Spark's launcher acts upon before there is a context."""

SECRET = r"secret|password|token|access[.]?key|credential"
"""In the names of settings with secret values: what Spark itself hides, and a word more."""

SHIPPED = {
    # Rows beyond this many bytes reach the executors as Arrow batches. Below it they become part of the plan, which is
    # quicker for a few; but each rule of the optimizer that compares plans then compares their rows.
    "spark.sql.execution.arrow.localRelationThreshold": "64KB",
}

SMALL = {
    **SHIPPED,
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.leafNodeDefaultParallelism": "1",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.optimizer.excludedRules": "",
}

PREPARED = {
    **SMALL,
    # All rows become part of the plan.
    "spark.sql.execution.arrow.localRelationThreshold": "64MB",
}

BULK = {
    **SHIPPED,
    # The optimizer would evaluate rows that are at hand itself, one by one: quick for a few, slow for many.
    "spark.sql.optimizer.excludedRules": "org.apache.spark.sql.catalyst.optimizer.ConvertToLocalRelation",
}

LARGE = {
    **BULK,
    # Spark does not know how much its tasks will read from a source. It assumes very little and would broadcast it to
    # every task, which exhausts the driver's memory: ten million rows are gigabytes.
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.adaptive.autoBroadcastJoinThreshold": "10MB",
}

CAREFUL = {
    # Nothing is evaluated before there is a row to evaluate it for, nor below the operator that it was written above.
    "spark.sql.optimizer.excludedRules": ",".join(
        f"org.apache.spark.sql.catalyst.optimizer.{rule}"
        for rule in (
            "ConvertToLocalRelation",
            "ConstantFolding",
            "PushDownPredicates",
            "PushPredicateThroughJoin",
            "PushExtraPredicateThroughJoin",
            "InferFiltersFromConstraints",
        )
    ),
}


class _Session(SparkSession):
    """A session that reads its settings from Java once: they do not change, and pyspark reads them one by one each time
    that rows go from Arrow to Spark or back."""

    @functools.cached_property
    def _jconf(self) -> Any:
        return _Settings(super()._jconf)


class _Settings:
    """A session's settings; those read by name are remembered."""

    def __init__(self, settings: Any) -> None:
        self._settings = settings
        self._known: dict[tuple[str, ...], list[str]] = {}

    def getConfs(self, names: list[str]) -> list[str]:
        asked = tuple(names)
        if asked not in self._known:
            self._known[asked] = list(self._settings.getConfs(names))
        return self._known[asked]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._settings, name)


class SparkSettingsLike(Protocol):
    """The [spark] section of dyda.toml."""

    @property
    def master(self) -> str: ...
    @property
    def timezone(self) -> str: ...
    @property
    def numeric(self) -> str: ...
    @property
    def config(self) -> Mapping[str, str]: ...


class Sessions:
    """Starts Spark on first use. The JVM ends with this process, however that ends."""

    def __init__(
        self,
        settings: SparkSettingsLike,
        log: Path | None = None,
        archives: Path | None = None,
        say: Callable[[str], None] = lambda text: None,
    ) -> None:
        """`archives`: the folder where Java may find Spark's classes (`class_archive`); `say` is told of the start."""
        self._settings = settings
        self._log = log
        self._archives = archives
        self._say = say
        self._bulk: SparkSession | None = None
        self._others: dict[str, SparkSession] = {}
        self._scheduler: Any = None
        self._lock = threading.Lock()
        self._start_guard = threading.Lock()
        self._starting = False
        self._unwanted = False
        """Whether it was stopped while it started."""

    @property
    def alive(self) -> bool:
        """Whether the JVM that was started is still there."""
        process = getattr(SparkContext._gateway, "proc", None)
        return self._bulk is not None and process is not None and process.poll() is None

    @property
    def context(self) -> SparkContext:
        return self.bulk.sparkContext

    @property
    def bulk(self) -> SparkSession:
        with self._lock:
            if self._bulk is None:
                self._bulk = self._started()
            return self._bulk

    @property
    def small(self) -> SparkSession:
        return self._beside("small", SMALL)

    @property
    def prepared(self) -> SparkSession:
        return self._beside("prepared", PREPARED)

    @property
    def large(self) -> SparkSession:
        return self._beside("large", LARGE)

    def careful(self, *, small: bool) -> SparkSession:
        """For what must not be evaluated a step too early."""
        if small:
            return self._beside("careful and small", {**SMALL, **CAREFUL})
        return self._beside("careful", {**LARGE, **CAREFUL})

    def _beside(self, name: str, settings: Mapping[str, str]) -> SparkSession:
        """Another session of the same application."""
        bulk = self.bulk
        with self._lock:
            if name not in self._others:
                other = bulk.newSession()
                for key, value in {**self._session_settings(), **settings}.items():
                    other.conf.set(key, value)
                self._others[name] = other
            return self._others[name]

    def jobs_so_far(self) -> int:
        """Spark's own number of jobs in this application, exact at once (the status tracker lags)."""
        if not self.alive:
            return 0
        try:
            if self._scheduler is None:
                self._scheduler = self.context._jsc.sc().dagScheduler()
            return int(self._scheduler.numTotalJobs())
        except (Py4JError, OSError, EOFError):
            return 0  # it is just ending: this must not hide the error that the caller has about it

    def stop(self) -> None:
        """Ends the application and its JVM. A later use starts a new one. While another thread starts it, that thread
        ends it again: nobody waits for seconds for what he does not want."""
        with self._start_guard:
            self._unwanted = self._starting
            if self._starting:
                return
        with self._lock:
            session, self._bulk, self._others, self._scheduler = self._bulk, None, {}, None
            if session is not None:
                _end(session)

    def _started(self) -> SparkSession:
        began = time.monotonic()
        self._say(f"Spark is starting ({self._settings.master})")
        archive = reading_options(archive_file(self._archives)) if self._archives is not None else None
        with self._start_guard:
            self._starting = True
        try:
            session = self._start(archive)
        finally:
            with self._start_guard:
                unwanted, self._unwanted, self._starting = self._unwanted, False, False
        if unwanted:
            _end(session)
            raise EngineFailed("it was stopped while it started")
        self._say(f"Spark has started, in {time.monotonic() - began:.1f} s")
        return session

    def _session_settings(self) -> dict[str, str]:
        return {**REQUIRED, "spark.sql.session.timeZone": self._settings.timezone}

    def _configuration(self) -> dict[str, str]:
        settings = self._settings
        values = DEFAULTS | BULK
        if settings.master.startswith("local"):
            values |= LOCAL
        values |= {key: str(value) for key, value in settings.config.items()}
        values |= self._session_settings()
        values["spark.master"] = settings.master
        # By its address and not on the class path, where a folder would keep Java from sharing its classes (CDS). What
        # the project gives itself comes later and wins.
        quiet = f"-Dlog4j2.configurationFile={QUIET.as_uri()}"
        values[OPTIONS] = f"{quiet} {values.get(OPTIONS, '')}".rstrip()
        return values

    def _start(self, archive: str | None) -> SparkSession:
        """`archive`: the options with which Java finds Spark's classes."""
        # pyspark logs the query context of every failed query, whatever the level; the message is in the exception.
        # Made here by its own class: a plain logger under this name makes pyspark fail while it reports a failure.
        PySparkLogger.getLogger("SQLQueryContextLogger").addFilter(lambda record: False)
        values = self._configuration()
        configuration = SparkConf(loadDefaults=False).setAll(list(values.items()))
        python = values.get("spark.pyspark.python")
        if python is None and self._settings.master.startswith("local"):
            python = sys.executable
        environment = {"JAVA_HOME": str(find_java_home())}
        environment["SPARK_LAUNCHER_OPTS"] = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
        if python is not None:
            environment["PYSPARK_PYTHON"] = python
        if self._settings.master.startswith("local"):
            environment["SPARK_LOCAL_IP"] = "127.0.0.1"
        given = os.environ.get(OPTIONS_OF_JAVA, "")
        if archive is not None and "Archive" not in given:
            environment[OPTIONS_OF_JAVA] = f"{given} {archive}".strip()
        with _environment(environment), self._output() as output:
            try:
                gateway = launch_gateway(  # type: ignore[no-untyped-call]
                    SparkConf(loadDefaults=False).setAll(list(_shown(values).items())),
                    _Launch(stdout=output, stderr=output),
                )
                with _own_interrupts():
                    context = SparkContext(conf=configuration, gateway=gateway)
            except Exception as error:
                # py4j wraps what the JVM throws in exceptions of its own.
                ours = isinstance(error, PySparkException | OSError)
                reason = _reason(error, output) if ours else str(error).splitlines()[-1]
                raise ConfigurationError(
                    f"Spark does not start with master {self._settings.master!r}: {reason}",
                    "Check [spark] master and config in dyda.toml.",
                ) from None
            # Read when tasks are sent, long after the environment is as it was.
            if python is not None:
                context.pythonExec = python
        return _Session(context)

    def _output(self) -> IO[bytes]:
        """Where the JVM and the Python workers write: the log file, or a temporary one."""
        if self._log is None:
            return tempfile.TemporaryFile()
        self._log.parent.mkdir(parents=True, exist_ok=True)
        return self._log.open("a+b")


def _end(session: SparkSession) -> None:
    gateway: Any = SparkContext._gateway
    process = getattr(gateway, "proc", None)
    with contextlib.suppress(Exception):
        session.stop()
    with contextlib.suppress(Exception):
        gateway.shutdown()
    # What a clean stop has done already, and a stop without a JVM to talk to could not.
    SparkContext._active_spark_context = None
    SparkContext._gateway = None
    SparkContext._jvm = None
    SparkSession._instantiatedSession = None
    SparkSession._activeSession = None
    if process is not None:
        process.stdin.close()
        with contextlib.suppress(Exception):
            process.wait(timeout=20)
        if process.poll() is None:
            process.kill()
            process.wait()


def _shown(values: Mapping[str, str]) -> dict[str, str]:
    """The settings on the JVM's command line, which every user of the machine can read: those it needs to start.

    It gets the others from the context's configuration, through a socket.
    """
    return {
        name: value
        for name, value in values.items()
        if name.startswith(AT_LAUNCH) and not re.search(SECRET, name, re.IGNORECASE)
    }


class _Launch(dict[str, Any]):
    """How the JVM is started: it ends when its input is closed, not by a signal to the process group or the service,
    which would stop it in the middle of a unit. Java keeps ignoring the signals that are ignored when it starts."""

    def __setitem__(self, name: str, value: Any) -> None:
        super().__setitem__(name, _ignore_stop_signals if name == "preexec_fn" else value)


def _ignore_stop_signals() -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)


@contextlib.contextmanager
def _own_interrupts() -> Iterator[None]:
    """pyspark installs its own handler for Ctrl-C; the command's own is put back."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if before is not None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    """Environment variables for the JVM that is started within the block."""
    before = {key: os.environ.get(key) for key in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for key, value in before.items():
            if value is None:
                os.environ.pop(key, None)
            else:
                os.environ[key] = value


def _reason(error: Exception, output: IO[bytes]) -> str:
    """The JVM's last line of output, else the error's first."""
    try:
        output.seek(0)
        lines = output.read().decode(errors="replace").strip().splitlines()
    except (OSError, ValueError):
        lines = []
    said = [line for line in lines if not line.startswith(("WARNING:", "\tat "))]
    return said[-1] if said else str(error).splitlines()[0]
