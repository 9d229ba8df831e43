"""A pooler in transaction mode: each transaction may run on another connection than the one before.

Of PostgreSQL's protocol (manual, chapter "Frontend/Backend Protocol") it knows how a session begins, how long
a message is, and that `ReadyForQuery` with `I` ends a transaction. What PgBouncer cannot keep, it does not
keep either: it hands the connections round on purpose, so that whatever was left on one is missed or met.
"""

from __future__ import annotations

import select
import socket
import struct
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg

PROTOCOL_3 = 196608
BACKENDS = 3


class Pooler:
    """Clients on a port, a few server connections behind them, taken in turns."""

    def __init__(self, url: str, port: int) -> None:
        self.port = port
        # psycopg logs in; from there on its sockets are ours.
        self.sessions = [psycopg.connect(url, autocommit=True) for _ in range(BACKENDS)]
        self._free: deque[psycopg.Connection[Any]] = deque(self.sessions)
        self._available = threading.Semaphore(BACKENDS)
        self.transactions = 0

    def serve(self, client: socket.socket) -> None:
        """One client, until it leaves."""
        with suppress(OSError), client:
            self._greet(client)
            while first := client.recv(65536):
                if first[:1] == b"X":
                    return
                with self._available:
                    session = self._free.popleft()
                    try:
                        self._transaction(client, session.fileno(), first)
                    finally:
                        self._free.append(session)

    def _greet(self, client: socket.socket) -> None:
        length, code = struct.unpack("!ii", _exactly(client, 8))
        if code != PROTOCOL_3:  # asks for encryption
            client.sendall(b"N")
            length, code = struct.unpack("!ii", _exactly(client, 8))
        _exactly(client, length - 8)
        told = {"server_version": "18.0", "client_encoding": "UTF8", "standard_conforming_strings": "on"}
        status = [f"{name}\0{value}\0".encode() for name, value in told.items()]
        client.sendall(
            _message(b"R", struct.pack("!i", 0))
            + b"".join(_message(b"S", one) for one in status)
            + _message(b"Z", b"I")
        )

    def _transaction(self, client: socket.socket, descriptor: int, first: bytes) -> None:
        self.transactions += 1
        with socket.socket(fileno=descriptor) as server:
            try:
                server.setblocking(True)
                server.sendall(first)
                ends = _EndOfTransaction()
                while True:
                    readable = select.select([client, server], [], [], 60)[0]
                    if client in readable:
                        server.sendall(client.recv(65536))
                    if server in readable:
                        data = server.recv(65536)
                        client.sendall(data)
                        if ends.saw(data):
                            return
            finally:
                server.detach()


class _EndOfTransaction:
    """Reads the server's messages, in whatever pieces they come, for `ReadyForQuery` outside of a transaction."""

    def __init__(self) -> None:
        self._rest = b""

    def saw(self, data: bytes) -> bool:
        self._rest += data
        idle = False
        while len(self._rest) >= 5 and len(self._rest) > (size := struct.unpack("!i", self._rest[1:5])[0]):
            idle = self._rest[:1] == b"Z" and self._rest[5:6] == b"I"
            self._rest = self._rest[size + 1 :]
        return idle and not self._rest


def _message(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack("!i", len(body) + 4) + body


def _exactly(source: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = source.recv(count - len(data))
        if not more:
            raise ConnectionResetError
        data += more
    return data


@contextmanager
def pooling(url: str) -> Iterator[Pooler]:
    """A pooler before the database of `url`, on 127.0.0.1, until the end of the block."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        pooler = Pooler(url, listening.getsockname()[1])

        def accept() -> None:
            with suppress(OSError):
                while True:
                    client, _ = listening.accept()
                    threading.Thread(target=pooler.serve, args=(client,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield pooler
        with suppress(OSError):
            listening.shutdown(socket.SHUT_RDWR)
        for session in pooler.sessions:
            session.close()
