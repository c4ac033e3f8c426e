"""A TCP gate before a test's PostgreSQL, which has a unix socket only and is built without TLS.

    libpq ──TCP, TLS if it asks for it── gate ──unix socket── PostgreSQL

It speaks PostgreSQL's SSLRequest and then TLS with real certificates, so libpq does all that it would do with any other
server. Each connection is remembered with what its startup packet says.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
import threading
from dataclasses import dataclass
from pathlib import Path

SSL_REQUEST, GSS_REQUEST, CANCEL_REQUEST = 80877103, 80877104, 80877102


@dataclass(frozen=True)
class Connection:
    encrypted: bool
    application: str
    certificate: bool


class Gate:
    """Listens on a port of its own on loopback until it is closed. Without a context it refuses TLS."""

    def __init__(self, target: Path, context: ssl.SSLContext | None = None) -> None:
        self.target = target
        self.context = context
        self.connections: list[Connection] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        # A client that hangs up, in the middle of a handshake too, ends its own thread only.
        with contextlib.suppress(OSError, ssl.SSLError, EOFError), contextlib.ExitStack() as stack:
            stack.callback(lambda: client.close())
            while True:
                length, code = struct.unpack("!ii", _exactly(client, 8))
                if code == SSL_REQUEST and self.context is not None:
                    client.sendall(b"S")
                    client = self.context.wrap_socket(client, server_side=True)
                elif code in (SSL_REQUEST, GSS_REQUEST):
                    client.sendall(b"N")
                else:
                    break
            rest = _exactly(client, length - 8)
            if code != CANCEL_REQUEST:
                words = rest.split(b"\0")
                options = dict(zip(words[::2], words[1::2], strict=False))
                encrypted = isinstance(client, ssl.SSLSocket)
                certificate = isinstance(client, ssl.SSLSocket) and bool(client.getpeercert(binary_form=True))
                application = options.get(b"application_name", b"").decode()
                self.connections.append(Connection(encrypted, application, certificate))
            server = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            server.connect(str(self.target))
            server.sendall(struct.pack("!ii", length, code) + rest)
            answers = threading.Thread(target=_pump, args=(server, client), daemon=True)
            answers.start()
            _pump(client, server)
            answers.join()


def _exactly(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            raise EOFError
        data += more
    return data


def _pump(origin: socket.socket, destination: socket.socket) -> None:
    with contextlib.suppress(OSError, ssl.SSLError):
        while data := origin.recv(65536):
            destination.sendall(data)
    for one in (origin, destination):
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
