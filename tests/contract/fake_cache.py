"""A cache for tests: a dictionary with expiry, which can be taken out of reach."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta

from core.ports import Versioned


class FakeCache:
    """Counts what it is asked; while `out_of_reach`, it answers nothing and keeps nothing."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.values: dict[str, tuple[bytes | None, int, float]] = {}  # value (None: dropped), version, until
        self.out_of_reach = False
        self.asked: list[str] = []
        self.closed = False

    def get(self, key: str) -> bytes | None:
        self.asked.append(key)
        value, _, until = self.values.get(key, (None, 0, 0.0))
        return value if until > self.clock() and not self.out_of_reach else None

    def put(self, key: str, value: bytes, keep: timedelta) -> None:
        self._set(key, value, 0, keep)

    def drop(self, key: str) -> None:
        if not self.out_of_reach:
            self.values.pop(key, None)

    def get_versioned(self, key: str) -> Versioned | None:
        value = self.get(key)
        return None if value is None else Versioned(self.values[key][1], value)

    def put_newer(self, key: str, value: Versioned, keep: timedelta) -> None:
        self._set_newer(key, value.value, value.version, keep)

    def drop_older(self, key: str, version: int, keep: timedelta) -> bool:
        self._set_newer(key, None, version, keep)
        return not self.out_of_reach

    def _set_newer(self, key: str, value: bytes | None, version: int, keep: timedelta) -> None:
        there, stored, until = self.values.get(key, (b"", -1, 0.0))  # nothing there reads as an old value
        if until <= self.clock() or version > stored or (version == stored and there is not None):
            least = until - self.clock() if there is None else 0.0
            self._set(key, value, version, max(keep, timedelta(seconds=least)))

    def _set(self, key: str, value: bytes | None, version: int, keep: timedelta) -> None:
        if not self.out_of_reach:
            self.values[key] = (value, version, self.clock() + keep.total_seconds())

    def close(self) -> None:
        self.closed = True
