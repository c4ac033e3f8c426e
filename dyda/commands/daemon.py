"""`dyda daemon` and `dyda stop`."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dyda.commands.daemon_log import DaemonLog
from dyda.commands.daemon_standby import PATIENCE, wait_for_turn
from dyda.commands.open_transactions import Reminders
from dyda.embedded import EmbeddedServer
from dyda.errors import DydaError, Fenced, ProjectBusy, WarehouseUnreachable
from dyda.model.event import DaemonStarted, DaemonStopped, DaemonTookOver, WarehouseBack
from dyda.open_project import OpenProject
from dyda.passwords import hidden
from dyda.project import Project
from dyda.settings import EMBEDDED, SparkSettings
from dyda.warehouse import EventRecord, is_hidden

if TYPE_CHECKING:
    from dyda.commands.daemon_notify import Notifier
    from dyda.engine import Engine
    from dyda.maintenance.cycle import Outcome
    from dyda.maintenance.loop import Maintainer
    from dyda.warehouse.writer import Writer

__all__ = ["run_daemon", "stop"]


def run_daemon(folder: Path, until_idle: bool, write: Callable[[str], None]) -> int:
    """Maintain the project's views until told to stop; the exit code.

    One process works on a project. If that is another one, this one stands by. If this one loses its session and
    another takes over, this one has written nothing since, and stands by like any other. `write` gets lines, or is a
    log.
    """
    log = write if isinstance(write, DaemonLog) else DaemonLog(write)
    with _stop_signals() as stopping:
        try:
            code = _run(folder, until_idle, log, stopping)
        except Exception as error:
            # The signal may have ended Spark as well, in the middle of a unit: nothing of it was installed.
            if not stopping.is_set():
                raise
            log(f"abandoned the running unit: {hidden(str(error) or type(error).__name__)}".splitlines()[0])
            code = 0
        if stopping.is_set():
            log(f"stopped by {stopping.name}; nothing is lost")
        return code


def _run(folder: Path, until_idle: bool, log: DaemonLog, stopping: StopSignal) -> int:
    with contextlib.closing(_Spark(log)) as spark:
        seen_at = time.monotonic()
        outage = Reminders(log)
        stood_by = False
        while not stopping.is_set():
            try:
                try:
                    engine = spark.engine(folder)
                    with (
                        OpenProject.open(folder, engine) as opened,
                        opened.warehouse.lock(role="daemon") as writer,
                        contextlib.ExitStack() as stack,
                    ):
                        notifier = stack.enter_context(_notifications(opened, writer, log))
                        outlet = _to_both(log, notifier)
                        writer.outlet = outlet
                        try:
                            if outage.forget():
                                writer.tell(WarehouseBack(round(time.monotonic() - seen_at, 1)))
                            if stood_by:
                                writer.tell(DaemonTookOver(os.getpid(), socket.gethostname()))
                            stood_by = False
                            with _stopped_in_order(writer, stopping):
                                return _serve(folder, opened, writer, until_idle, log, stopping, outlet)
                        finally:
                            seen_at = time.monotonic()
                except ProjectBusy:
                    spark.close()
                    _say_back(outage, seen_at, log)
                    seen_at = time.monotonic()
                    code = wait_for_turn(folder, until_idle, log, stopping)
                    if code is not None:
                        return code
                    stood_by = True
                except Fenced as error:
                    spark.close()
                    log(error.in_one_line)
            except WarehouseUnreachable as error:
                outage.say(error.in_one_line, "the warehouse")
                if until_idle and time.monotonic() - seen_at > PATIENCE:
                    return 1
                stopping.wait(1.0)
    return 0


def _notifications(
    opened: OpenProject, writer: Writer, log: DaemonLog
) -> contextlib.AbstractContextManager[Notifier | None]:
    """Whoever dyda.toml names is told, until the end of the block."""
    settings, folder = opened.project.settings, opened.project.folder
    if not settings.notify:
        return contextlib.nullcontext()
    from dyda.commands.daemon_notify import Notifier

    return contextlib.closing(Notifier(settings.notify, opened.warehouse, writer, folder, settings.project.id, log))


def _to_both(log: DaemonLog, notifier: Notifier | None) -> Callable[[EventRecord], None]:
    """Where the daemon's events go."""
    if notifier is None:
        return log.event

    def outlet(event: EventRecord) -> None:
        log.event(event)
        notifier.happened(event)

    return outlet


@contextlib.contextmanager
def _stopped_in_order(writer: Writer, stopping: threading.Event) -> Iterator[None]:
    """The daemon's end is an event too, if the warehouse can still be told."""
    try:
        yield
    except Exception:
        if not stopping.is_set():
            raise
        _tell_the_end(writer)
        raise
    _tell_the_end(writer)


def _tell_the_end(writer: Writer) -> None:
    with contextlib.suppress(Fenced, WarehouseUnreachable):  # then another one works, or nobody can be told
        writer.tell(DaemonStopped(os.getpid(), socket.gethostname()))


def _say_back(outage: Reminders, seen_at: float, log: Callable[[str], None]) -> None:
    if outage.forget():
        log(f"the warehouse is back after {time.monotonic() - seen_at:.0f} s")


class _Spark:
    """The daemon's Spark. It starts on first use and survives outages of the warehouse; a standby needs none."""

    def __init__(self, log: Callable[[str], None]) -> None:
        self._log = log
        self._engine: Engine | None = None
        self._settings: SparkSettings | None = None

    def engine(self, folder: Path) -> Engine:
        """With the current settings of dyda.toml."""
        from dyda.engine import Engine

        project = Project.load(folder)
        settings = project.settings.spark
        if self._engine is None or settings != self._settings:
            self.close()
            self._engine, self._settings = Engine(settings, archives=project.archives, say=self._log), settings
        return self._engine

    def close(self) -> None:
        if self._engine is not None:
            self._engine.stop()
            self._engine = None


def _serve(
    folder: Path,
    opened: OpenProject,
    writer: Writer,
    until_idle: bool,
    log: DaemonLog,
    stopping: threading.Event,
    outlet: Callable[[EventRecord], None],
) -> int:
    from dyda.commands.daemon_lookout import Lookout
    from dyda.maintenance.loop import Maintainer

    maintainer = Maintainer(opened, writer, log, stopping.is_set, outlet)
    limit = opened.project.settings.maintenance.stale_after
    with contextlib.closing(maintainer), contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.closing(Lookout(opened.warehouse, writer, limit, log)))
        views = list(maintainer.known.views.values())
        if views and not until_idle and not opened.engine.asked:
            from dyda.commands.daemon_warm_up import WarmUp

            stack.enter_context(contextlib.closing(WarmUp(opened.engine, views, opened.project.archives, log)))
        return _maintain(folder, maintainer, until_idle, log, stopping)


def _maintain(folder: Path, maintainer: Maintainer, until_idle: bool, log: DaemonLog, stopping: threading.Event) -> int:
    from dyda.commands.requests import Requests
    from dyda.maintenance.cycle import Outcome

    opened = maintainer.opened
    settings = opened.project.settings.maintenance
    views = len([name for name in maintainer.known.views if not is_hidden(name)])
    maintainer.writer.tell(DaemonStarted(os.getpid(), socket.gethostname(), views, settings.consistency))
    requests = Requests(folder, maintainer, log)
    pause, blocked_since = settings.poll_min, None
    while not stopping.is_set():
        asked = requests.serve()
        try:
            outcome = maintainer.cycle()
        except (Fenced, WarehouseUnreachable):
            raise
        except DydaError as error:  # no view or source is to blame: log it and try again
            outcome = maintainer.blocked(error)
        _note_obstacle(maintainer, outcome, log)
        if outcome is Outcome.WORKED or asked:
            pause, blocked_since = settings.poll_min, None
            continue
        if outcome is Outcome.BLOCKED:
            blocked_since = blocked_since or time.monotonic()
            if until_idle and time.monotonic() - blocked_since > PATIENCE:
                log(maintainer.obstacle.in_one_line if maintainer.obstacle else "a source stays out of reach")
                return 1
        else:
            blocked_since = None
            beside = maintainer.lanes is not None and maintainer.lanes.active
            if until_idle and outcome is Outcome.IDLE and not beside:
                return 0
        stopping.wait(pause)
        pause = min(pause * 2, settings.poll_max)
    return 0


def _note_obstacle(maintainer: Maintainer, outcome: Outcome, log: Callable[[str], None]) -> None:
    """`status` shows the obstacle. A warehouse with a full disk may not even take that."""
    from dyda.maintenance.cycle import Outcome

    blocked = outcome is Outcome.BLOCKED or (outcome is not Outcome.IDLE and maintainer.still_blocked)
    error = maintainer.obstacle if blocked else None
    what = None if error is None else f"{error.what} ({maintainer.waiting})"
    try:
        maintainer.writer.note_obstacle(what)
    except (Fenced, WarehouseUnreachable):
        raise
    except DydaError as error:
        log(f"{what or 'maintenance goes on'} (could not record that in the warehouse: {error.what})")


class StopSignal(threading.Event):
    """Set when the daemon is asked to end; `name` is the signal's."""

    name = ""

    def received(self, number: int, frame: object) -> None:
        self.name = signal.Signals(number).name
        self.set()


@contextlib.contextmanager
def _stop_signals() -> Iterator[StopSignal]:
    """SIGTERM and SIGINT end the daemon between units: the running one is finished or abandoned, nothing is lost."""
    stopping = StopSignal()
    if threading.current_thread() is not threading.main_thread():
        yield stopping
        return
    numbers = (signal.SIGTERM, signal.SIGINT)
    before = {number: signal.signal(number, stopping.received) for number in numbers}
    try:
        yield stopping
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def stop(folder: Path) -> dict[str, Any]:
    """Stop the standby daemons and the working one, then the embedded servers of this project."""
    project = Project.load(folder)
    settings = project.settings
    urls = {"warehouse": settings.warehouse.url} | {name: entry.url for name, entry in settings.sources.items()}
    embedded = [name for name, url in urls.items() if url == EMBEDDED]
    stopped, waiting = False, 0
    if "warehouse" not in embedded or EmbeddedServer.running(project.server_folder("warehouse")):
        with OpenProject.open(folder) as opened:
            waiting = _stop_waiting(opened)  # first: otherwise one of them would take over
            stopped = _stop_daemon(opened)
    servers = [name for name in embedded if EmbeddedServer.stop(project.server_folder(name))]
    return {"daemon": stopped, "waiting": waiting, "servers": servers}


def _stop_waiting(opened: OpenProject) -> int:
    """How many standby daemons were stopped."""
    waiting = opened.warehouse.waiting()
    away = [record for record in waiting if record.host != socket.gethostname()]
    if away:
        raise DydaError(
            f"a daemon on {away[0].host} (pid {away[0].pid}) is standing by and would take over",
            f"Run `dyda stop` on {away[0].host} first.",
        )
    for record in waiting:
        with contextlib.suppress(ProcessLookupError):
            os.kill(record.pid, signal.SIGTERM)
    _until(
        lambda: not {record.pid for record in opened.warehouse.waiting()} & {record.pid for record in waiting},
        DydaError("standby daemons did not stop within a minute", "End them with kill -9; they have nothing to lose."),
    )
    return len(waiting)


def _stop_daemon(opened: OpenProject) -> bool:
    daemon = opened.warehouse.holder()
    if not daemon.running or daemon.pid is None:
        return False
    if daemon.host != socket.gethostname():
        raise DydaError(f"the daemon runs on {daemon.host}, not here", f"Run `dyda stop` on {daemon.host}.")
    try:
        os.kill(daemon.pid, signal.SIGTERM)
    except ProcessLookupError:
        return False
    _until(
        lambda: opened.warehouse.holder().fence != daemon.fence,
        DydaError(
            f"the daemon (process {daemon.pid}) did not stop within a minute",
            f"It may be in a long build. Wait, or end it: kill -9 {daemon.pid} (nothing is lost).",
        ),
    )
    return True


def _until(done: Callable[[], bool], otherwise: DydaError) -> None:
    deadline = time.monotonic() + 60
    while not done():
        if time.monotonic() > deadline:
            raise otherwise
        time.sleep(0.1)
