"""Locks for tests: a dictionary with expiry, which can be taken out of reach."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import timedelta


class FakeLocks:
    """While `out_of_reach`, nobody can say anything."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.held: dict[str, tuple[str, float]] = {}
        self.out_of_reach = False
        self._lock = threading.Lock()

    def take(self, name: str, owner: str, keep: timedelta) -> bool | None:
        return self._set(name, owner, keep, {owner, ""})

    def renew(self, name: str, owner: str, keep: timedelta) -> bool | None:
        return self._set(name, owner, keep, {owner})

    def free(self, name: str, owner: str) -> None:
        self._set(name, owner, timedelta(0), {owner})

    def close(self) -> None:
        self.held.clear()

    def _holder(self, name: str) -> str:
        holder, until = self.held.get(name, ("", 0.0))
        return holder if until > self.clock() else ""

    def _set(self, name: str, owner: str, keep: timedelta, welcome: set[str]) -> bool | None:
        with self._lock:
            if self.out_of_reach:
                return None
            if self._holder(name) not in welcome:
                return False
            self.held[name] = (owner, self.clock() + keep.total_seconds())
            return True
