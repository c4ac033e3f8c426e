"""Telling somebody of an event: one HTTP request, or one run of a command. And `dyda notify test`."""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import dyda
from dyda.commands.daemon_log import event_to_json, moment_text
from dyda.errors import DydaError
from dyda.model.event import Level
from dyda.project import Project
from dyda.settings import NotifyEntry
from dyda.warehouse import EventRecord

__all__ = ["NotDelivered", "deliver", "notify_test", "payload_of", "target_of"]

TIMEOUT = 20.0
"""Seconds that a delivery may take."""

LONGEST_PART = 30_000
"""Letters of a part of an event in a command's environment: Linux takes 128 KB as one variable, and no more."""


class NotDelivered(DydaError):
    """Whoever was to be told was not; it can be tried again. The message has no secret in it."""


def payload_of(event: EventRecord, project: str | None) -> dict[str, Any]:
    """What a webhook gets as its body, and a command as its standard input."""
    return {"version": 1, "project": project, **event_to_json(event)}


def target_of(entry: NotifyEntry) -> str:
    """The name under which the catalog remembers how far this target has got: it shows neither URL nor command."""
    return hashlib.sha256(json.dumps([entry.webhook, entry.command]).encode()).hexdigest()


def deliver(entry: NotifyEntry, payload: dict[str, Any], folder: Path) -> None:
    """Once. NotDelivered: it was refused, or there was no answer."""
    if entry.webhook is not None:
        _post(entry.webhook, entry.headers, payload)
    else:
        _run(entry.command or "", payload, folder)


def _post(url: str, headers: Any, payload: dict[str, Any]) -> None:
    import http.client
    import urllib.error
    import urllib.request

    class NotFollowed(urllib.request.HTTPRedirectHandler):
        """A redirected POST would become a GET without a body."""

        def redirect_request(self, *details: Any) -> None:
            return None

    sent = {"Content-Type": "application/json", "User-Agent": f"dyda/{dyda.__version__}", **headers}
    body = json.dumps(payload, default=str).encode()
    try:
        request = urllib.request.Request(url, data=body, headers=sent, method="POST")
        with urllib.request.build_opener(NotFollowed).open(request, timeout=TIMEOUT) as answer:
            answer.read(1)
    except urllib.error.HTTPError as error:
        error.close()
        raise NotDelivered(f"it answered {error.code}") from None
    except urllib.error.URLError as error:
        reason = error.reason
        raise NotDelivered(f"no answer: {getattr(reason, 'strerror', None) or type(reason).__name__}") from None
    except (OSError, ValueError, http.client.HTTPException) as error:  # their texts may quote the URL
        raise NotDelivered(f"no answer: {type(error).__name__}") from None


def _run(command: str, payload: dict[str, Any], folder: Path) -> None:
    """The event comes as JSON on standard input, and its main parts in the environment: nothing of it is ever part of
    the command line."""
    parts = ("kind", "level", "view", "source", "message", "text", "next")
    told = {f"DYDA_{name.upper()}": "" if payload[name] is None else str(payload[name]) for name in parts}
    told = {name: _shortened(value.replace("\0", "")) for name, value in told.items()}
    try:
        process = subprocess.Popen(
            command,
            shell=True,
            cwd=folder,
            env={**os.environ, **told},
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:  # no memory, no folder, a locale that lacks a letter
        raise NotDelivered(f"it cannot be run: {getattr(error, 'strerror', None) or type(error).__name__}") from None
    try:
        process.communicate(json.dumps(payload, default=str).encode(), timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):  # it has just ended
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise NotDelivered(f"it took more than {TIMEOUT:.0f} s") from None
    if process.returncode != 0:
        raise NotDelivered(f"it ended with {process.returncode}")


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST_PART else f"{text[:LONGEST_PART]}…"


def notify_test(folder: Path) -> list[dict[str, Any]]:
    """Sends a test event to everybody that dyda.toml names, whatever their filters."""
    project = Project.load(folder)
    now = datetime.datetime.now(datetime.UTC)
    text = f"a test of the notifications of this project, at {moment_text(now)}"
    event = EventRecord(0, now, "notify.test", None, None, None, text, None, None, {})
    payload = payload_of(event, project.settings.project.id) | {"level": Level.INFO.value}
    answers = []
    for entry in project.settings.notify:
        error = None
        try:
            deliver(entry, payload, project.folder)
        except NotDelivered as failed:
            error = failed.what
        answers.append({"target": entry.shown, "delivered": error is None, "error": error, "events": list(entry.kinds)})
    return answers
