"""Requests of other commands to the daemon: served between its units, one at a time; the answer goes to the catalog.

A request that has to wait for open transactions at a source is put aside and tried again; the views and other requests
go on meanwhile. What an operator decides is served also while another request waits for what lanes build, and so are
resyncs as long as a lane is free.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dyda.commands.apply import execute_apply, execute_check
from dyda.commands.handover import release
from dyda.commands.open_transactions import Patience, Progress, Reminders
from dyda.commands.pending_decisions import DECISIONS
from dyda.commands.views import begin_resync, execute_resync
from dyda.errors import (
    CaptureBlocked,
    ConfigurationError,
    DydaError,
    RefusedFiles,
    UnknownColumn,
    UnknownRelation,
    UnsupportedSql,
)
from dyda.maintenance.loop import Maintainer
from dyda.model.event import ConfigurationRefused
from dyda.passwords import hidden
from dyda.project import Project
from dyda.warehouse import RequestRecord

__all__ = ["Requests"]

ATTEMPT = 0.5
"""Seconds that one attempt waits; nothing is maintained meanwhile."""

BUILDING = ("apply", "resync")
"""Requests that may take long."""

FROM_FILES = ("apply", "check")
"""Requests about the project's files."""

REFUSALS = (ConfigurationError, RefusedFiles, UnknownColumn, UnknownRelation, UnsupportedSql)
"""What is wrong with them is said to the command, and remembered for those who look after the daemon."""

SHORTEST, LONGEST = 1.0, 5.0
"""Seconds between two attempts."""


@dataclass
class _Deferred:
    """A request that waits for an open transaction."""

    request: RequestRecord
    since: float
    next: float = 0.0
    pause: float = SHORTEST
    reminders: Reminders | None = None
    begun: bool = False
    """Whether a lane has begun with it while another request waited for one."""


class Requests:
    """The daemon's side of `Warehouse.submit` and `Warehouse.wait`."""

    def __init__(self, folder: Path, maintainer: Maintainer, log: Callable[[str], None]) -> None:
        self._folder = folder
        self._maintainer = maintainer
        self._log = log
        self._deferred: dict[int, _Deferred] = {}
        maintainer.meanwhile = self._meanwhile

    def serve(self) -> bool:
        """Serve one request, if there is one; its error goes to the command, never to the daemon.

        Whether anything was done: a request that has to wait does not count.
        """
        due = [deferred for deferred in self._deferred.values() if deferred.next <= time.monotonic()]
        if due:
            return self._again(due[0])
        request = self._maintainer.writer.take_request()
        if request is None:
            return False
        self._log(f"request {request.id}: {request.verb}")
        return self._carry_out(_Deferred(request, time.monotonic()))

    def _meanwhile(self) -> None:
        """One request waits for a lane: others that take no time are served. A resync begins, too, while a lane is
        free, and is answered when it has ended; other requests that build something wait."""
        for deferred in list(self._deferred.values()):
            if deferred.request.verb == "resync":
                self._begin(deferred)
        request = self._maintainer.writer.take_request()
        if request is None:
            return
        self._log(f"request {request.id}: {request.verb}")
        if request.verb in BUILDING:
            self._deferred[request.id] = _Deferred(request, time.monotonic())
        else:
            self._carry_out(_Deferred(request, time.monotonic()))

    def _begin(self, deferred: _Deferred) -> None:
        maintainer, request = self._maintainer, deferred.request
        name = str(request.arguments["name"])
        if deferred.begun:
            if name in maintainer.built:
                self._again(deferred)
            return
        lanes = maintainer.lanes
        # What is being built already may have been read before this was requested.
        if lanes is not None and lanes.free and not lanes.busy(name) and deferred.next <= time.monotonic():
            deferred.next = time.monotonic() + SHORTEST
            patience = _attempt(deferred, self._progress(request))
            try:
                deferred.begun = begin_resync(maintainer, name, self._progress(request), patience)
            except CaptureBlocked:
                return  # it is tried again in its turn
            except DydaError as error:
                del self._deferred[request.id]
                maintainer.writer.finish(request.id, error=error)
                maintainer.reload()

    def _progress(self, request: RequestRecord) -> Progress:
        """Written where it is news: whoever waits for a lane says how far that is with every unit."""
        told: dict[str, Any] = {}

        def tell(text: str, done: int, total: int) -> None:
            nonlocal told
            news = {"text": text, "done": done, "total": total}
            if news != told:
                self._maintainer.writer.progress(request.id, news)
            told = news

        return tell

    def _again(self, deferred: _Deferred) -> bool:
        request = deferred.request
        if self._maintainer.opened.warehouse.request(request.id).state != "running":
            self._log(f"request {request.id}: {request.verb} was cancelled")
            del self._deferred[request.id]
            release(self._maintainer)
            return False
        return self._carry_out(deferred)

    def _carry_out(self, deferred: _Deferred) -> bool:
        writer, request = self._maintainer.writer, deferred.request
        self._deferred.pop(request.id, None)
        progress = self._progress(request)
        patience = _attempt(deferred, progress)
        try:
            writer.finish(request.id, result=self._result(deferred, progress, patience))
        except CaptureBlocked as blocked:
            if patience.last:
                self._log(f"request {request.id}: {request.verb} has given up. {blocked.in_one_line}")
                writer.finish(request.id, error=blocked)
            else:
                deferred.reminders = deferred.reminders or Reminders(self._log)
                deferred.reminders.say(f"request {request.id}: {request.verb} is {blocked.waiting}")
                deferred.next = min(time.monotonic() + deferred.pause, _end(deferred) - ATTEMPT)
                deferred.pause = min(deferred.pause * 2, LONGEST)
                self._deferred[request.id] = deferred
            self._maintainer.reload()
            return request.id not in self._deferred
        except DydaError as error:
            writer.finish(request.id, error=error)
            if request.verb in FROM_FILES and isinstance(error, REFUSALS):
                writer.tell(ConfigurationRefused(error.what, error.remedy))
            self._maintainer.reload()
        except Exception as error:
            what = hidden(f"unexpected {type(error).__name__}: {error}")
            writer.finish(request.id, error={"what": what, "remedy": ""})
            raise
        return True

    def _result(self, deferred: _Deferred, progress: Progress, patience: Patience) -> Any:
        maintainer, request = self._maintainer, deferred.request
        match request.verb:
            case "apply" | "check":
                project = Project.load(self._folder)
                if project.settings != maintainer.opened.project.settings:
                    raise ConfigurationError(
                        "dyda.toml has changed since the daemon was started",
                        "Restart it, then apply: dyda stop, dyda daemon",
                    )
                if request.verb == "check":
                    return execute_check(maintainer, project)
                return execute_apply(maintainer, project, progress, patience)
            case "resync":
                name = str(request.arguments["name"])
                return execute_resync(maintainer, name, progress, patience, begun=deferred.begun)
            case verb if verb in DECISIONS:
                return DECISIONS[verb](maintainer, request.arguments)
            case _:
                raise DydaError(
                    f"the running daemon does not know the request {request.verb!r}",
                    "It is another version of DyDa; restart it: dyda stop, dyda daemon",
                )


def _attempt(deferred: _Deferred, progress: Progress) -> Patience:
    """A short attempt; the last one if the command's time ends with it."""
    left = _end(deferred) - time.monotonic()
    return Patience(progress, max(0.0, min(ATTEMPT, left)), last=left <= ATTEMPT)


def _end(deferred: _Deferred) -> float:
    """When its command stops waiting."""
    limit = deferred.request.arguments.get("timeout")
    return math.inf if limit is None else deferred.since + float(limit)
