"""A cache for tests: a dictionary with expiry, which can be taken out of reach."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta


class FakeCache:
    """Counts what it is asked; while `out_of_reach`, it answers nothing and keeps nothing."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.values: dict[str, tuple[bytes, float]] = {}
        self.out_of_reach = False
        self.asked: list[str] = []
        self.closed = False

    def get(self, key: str) -> bytes | None:
        self.asked.append(key)
        value, until = self.values.get(key, (b"", 0.0))
        return value if until > self.clock() and not self.out_of_reach else None

    def put(self, key: str, value: bytes, keep: timedelta) -> None:
        if not self.out_of_reach:
            self.values[key] = (value, self.clock() + keep.total_seconds())

    def drop(self, key: str) -> None:
        if not self.out_of_reach:
            self.values.pop(key, None)

    def close(self) -> None:
        self.closed = True
