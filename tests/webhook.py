"""A small HTTP server on a port of its own that takes notifications."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

__all__ = ["Webhook", "webhook"]


class Webhook:
    """What it received, in order. `answers`: the status codes of the next requests, 200 after them. While `open` is not
    set, requests get no answer."""

    def __init__(self) -> None:
        self.received: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.refused = 0
        self.answers: list[int] = []
        self.open = threading.Event()
        self.open.set()
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                hook.open.wait(60)
                code = hook.answers.pop(0) if hook.answers else 200
                if code == 200:
                    hook.received.append(json.loads(body))
                    hook.headers.append(dict(self.headers.items()))
                else:
                    hook.refused += 1
                self.send_response(code)
                if code == 302:
                    self.send_header("Location", hook.url)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *details: Any) -> None:
                """Nothing on standard error."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}/hook/s3cr3t-path"


@contextmanager
def webhook() -> Iterator[Webhook]:
    hook = Webhook()
    thread = threading.Thread(target=hook.server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield hook
    finally:
        hook.open.set()
        hook.server.shutdown()
        thread.join()
        hook.server.server_close()
