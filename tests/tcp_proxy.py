"""A TCP proxy that makes trouble: slow, cut, cut in the middle of an answer or a request, gone, back again.

It knows nothing of what passes through, so it stands before any server on this machine.
"""

from __future__ import annotations

import select
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Literal

from tests.seaweed import free_ports

POLL_SECONDS = 0.02
SEND_SECONDS = 10.0
CHUNK_BYTES = 1 << 16
RESET = struct.pack("ii", 1, 0)  # linger for no time: what is not sent is thrown away, the other side is told


@contextmanager
def tcp_proxy(port: int) -> Iterator[TcpProxy]:
    """A proxy before a port of 127.0.0.1, until the end of the block."""
    with free_ports(1) as [own]:
        proxy = TcpProxy(own, port)
        proxy.restore()
        try:
            yield proxy
        finally:
            proxy.refuse()


class TcpProxy:
    """Forwards 127.0.0.1:`port` to a target port there."""

    def __init__(self, port: int, target: int) -> None:
        self.port = port
        self._target = target
        self._delay = 0.0
        self._round = 0  # connections of an earlier one are cut
        self._allowed: dict[str, list[int]] = {}  # bytes until each cut, of "answer" and "request"
        self._listener: socket.socket | None = None
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()

    def delay(self, seconds: float) -> None:
        """Hold every piece of data for so long from now on, in both directions; 0: forward at once."""
        self._delay = seconds

    def cut(self) -> None:
        """Reset all connections there are; later ones work."""
        self._round += 1

    def cut_after(self, count: int, of: Literal["answer", "request"] = "answer", times: int = 1) -> None:
        """Forward so many more bytes of all answers (or requests), then reset that connection; `times` over."""
        with self._lock:
            self._allowed[of] = [count] * times

    def refuse(self) -> None:
        """Be gone: reset all connections, accept none. All threads have ended when it returns."""
        self._round += 1
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        for thread in self._threads:
            thread.join(SEND_SECONDS + 1)
        self._threads = []

    def restore(self) -> None:
        """Accept connections and forward as they come: no delay and no cut is left over."""
        self._delay, self._allowed = 0.0, {}
        if self._listener is None:
            self._listener = socket.create_server(("127.0.0.1", self.port), backlog=128)
            self._start(self._accept, self._listener)

    def _accept(self, listener: socket.socket) -> None:
        while self._listener is listener:
            with suppress(OSError, ValueError):  # closed meanwhile
                if select.select([listener], [], [], POLL_SECONDS)[0]:
                    self._start(self._forward, listener.accept()[0])

    def _start(self, work: object, argument: socket.socket) -> None:
        thread = threading.Thread(target=work, args=(argument,), daemon=True)  # type: ignore[arg-type]
        self._threads = [*(known for known in self._threads if known.is_alive() or known.ident is None), thread]
        thread.start()

    def _forward(self, client: socket.socket) -> None:
        current = self._round
        with client, suppress(OSError), socket.create_connection(("127.0.0.1", self._target), SEND_SECONDS) as server:
            client.settimeout(SEND_SECONDS)
            while current == self._round:
                for source in select.select([client, server], [], [], POLL_SECONDS)[0]:
                    data = source.recv(CHUNK_BYTES)
                    if not data:
                        return
                    if not self._pass(data, source is server, server if source is client else client, current):
                        current = -1
                        break
            for one in (client, server):
                one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)

    def _pass(self, data: bytes, is_answer: bool, target: socket.socket, current: int) -> bool:
        until = time.monotonic() + self._delay
        while time.monotonic() < until and current == self._round:
            time.sleep(POLL_SECONDS)
        kind = "answer" if is_answer else "request"
        with self._lock:
            allowed = self._allowed.get(kind, [])
            cut_here = bool(allowed) and allowed[0] <= len(data)
            if cut_here:
                data = data[: allowed.pop(0)]
            elif allowed:
                allowed[0] -= len(data)
        if current == self._round and data:
            target.sendall(data)
        return current == self._round and not cut_here
