"""A TCP proxy of our own on loopback, in front of a PostgreSQL server's socket: it can be made a bad network.

The server need not listen on a port: the proxy does, and forwards to the server's Unix socket. `refuse` closes the door
and ends what is open; `cut` ends each connection in the middle of an answer; `slow` lets answers trickle; `heal` makes
it a good network again.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import struct
import threading
import urllib.parse
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

CHUNK = 1 << 16
RESET = struct.pack("ii", 1, 0)
"""SO_LINGER that makes close() a reset: the other side gets an error and no orderly end."""


class Proxy:
    """Runs in a thread of its own; all methods may be called from any other."""

    def __init__(self, target: Path, seed: int = 0) -> None:
        self.target = target
        self.random = random.Random(seed)
        self.accepted = 0
        self._open: set[socket.socket] = set()
        self._limit: Callable[[], int] | None = None
        self._delay = 0.0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=f"proxy of {target.parent.name}")
        self._thread.start()
        self._server: asyncio.Server | None = None
        self._reserved: socket.socket | None = _bound(0)
        self.port = int(self._reserved.getsockname()[1])
        self._call(self._listen())

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/{urllib.parse.quote(database, safe='')}"

    # --- the weather

    def refuse(self) -> None:
        """Whoever connects is refused, and who is connected is cut off."""
        self._call(self._close_door())

    def cut(self, most: int = 4000) -> None:
        """Every connection, open or new, ends after a number of answered bytes between 1 and `most`."""
        self._limit = lambda: self.random.randint(1, most)

    def slow(self, seconds: float = 0.05) -> None:
        """Each piece of an answer takes this much longer."""
        self._delay = seconds

    def heal(self) -> None:
        self._limit, self._delay = None, 0.0
        if self._server is None:
            self._call(self._listen())

    def close(self) -> None:
        self._call(self._close_door())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(30)
        self._loop.close()
        if self._reserved is not None:
            self._reserved.close()

    # --- in the thread

    def _call(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    async def _listen(self) -> None:
        reserved, self._reserved = self._reserved, None
        self._server = await asyncio.start_server(self._serve, sock=reserved)

    async def _close_door(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
            # Bound but not listening, the port stays ours, and whoever tries it is refused by the kernel.
            self._reserved = _bound(self.port)
        for end in list(self._open):
            _reset(end)
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        client = writer.get_extra_info("socket")
        self._open.add(client)
        behind: asyncio.StreamWriter | None = None
        try:
            answers, behind = await asyncio.open_unix_connection(str(self.target))
            asking = asyncio.ensure_future(self._pump(reader, behind, answer=False))
            answering = asyncio.ensure_future(self._pump(answers, writer, answer=True))
            await asyncio.wait({asking, answering}, return_when=asyncio.FIRST_COMPLETED)
            for task in (asking, answering):
                task.cancel()
            await asyncio.gather(asking, answering, return_exceptions=True)
        except (OSError, asyncio.CancelledError):
            _reset(client)  # a server that is down refuses here, behind the door
        finally:
            self._open.discard(client)
            for end in (writer, behind):
                if end is not None:
                    end.close()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answer: bool) -> None:
        left: int | None = None
        with contextlib.suppress(OSError):
            while data := await reader.read(CHUNK):
                if answer and self._delay:
                    await asyncio.sleep(self._delay)
                if answer and self._limit is not None:
                    left = self._limit() if left is None else left
                    data, left = data[:left], left - len(data)
                writer.write(data)
                await writer.drain()
                if left is not None and left <= 0:
                    _reset(writer.get_extra_info("socket"))
                    return


def _bound(port: int) -> socket.socket:
    own = socket.socket()
    own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    own.bind(("127.0.0.1", port))
    return own


def _reset(end: Any) -> None:
    """Not an orderly end: the other side learns that the connection is gone."""
    with contextlib.suppress(OSError):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        end.shutdown(socket.SHUT_RDWR)
