"""Slots within one process: tenants take turns, however many threads each of them has waiting."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Iterator
from contextlib import contextmanager


class Turns:
    """So many at once (None: any number). A free slot goes to the tenant whose turn it is; each of its waits in order.

    Thread-safe. A free slot is known at once here; between processes it is only estimated.
    """

    def __init__(self, slots: int | None) -> None:
        self._free = slots
        self._lock = threading.Lock()
        self._waiting: OrderedDict[str, deque[threading.Event]] = OrderedDict()

    @contextmanager
    def taken(self, tenant: str, patience: float) -> Iterator[bool]:
        """A slot for a block. False: none was free within `patience` seconds, and none is taken."""
        admitted = self._wait(tenant, patience)
        try:
            yield admitted
        finally:
            if admitted and self._free is not None:
                with self._lock:
                    self._free += 1
                    self._admit()

    def _wait(self, tenant: str, patience: float) -> bool:
        if self._free is None:
            return True
        turn = threading.Event()
        with self._lock:
            self._waiting.setdefault(tenant, deque()).append(turn)
            self._admit()
        try:
            turn.wait(patience)
        finally:
            admitted = self._leave(tenant, turn)
        return admitted

    def _leave(self, tenant: str, turn: threading.Event) -> bool:
        """Whether it is this one's turn; if not, it waits no longer."""
        with self._lock:
            if turn.is_set():
                return True
            self._waiting[tenant].remove(turn)
            if not self._waiting[tenant]:
                del self._waiting[tenant]
            return False

    def _admit(self) -> None:
        """Give free slots to the first of each tenant in turn; who was served goes to the end."""
        while self._free and self._waiting:
            tenant, line = self._waiting.popitem(last=False)
            line.popleft().set()
            self._free -= 1
            if line:
                self._waiting[tenant] = line
