"""Working memories for tests: lists with expiry, which can be taken out of reach."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from datetime import timedelta


class FakeScratch:
    """While `out_of_reach`, nobody can say anything."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.kept: dict[str, tuple[list[tuple[str, bytes]], float]] = {}
        self.out_of_reach = False
        self._places = itertools.count(1)

    def append(self, name: str, values: Sequence[bytes], keep: timedelta, most: int) -> bool | None:
        there = self.read(name)
        if there is None or len(there) + len(values) > most:
            return None if there is None else False
        added = [(f"{next(self._places):09}", value) for value in values]
        self.kept[name] = ([*there, *added], self.clock() + keep.total_seconds())
        return True

    def read(self, name: str, last: int | None = None) -> list[tuple[str, bytes]] | None:
        if self.out_of_reach:
            return None
        there, until = self.kept.get(name, ([], 0.0))
        return (there[-last:] if last else list(there)) if until > self.clock() else []

    def trim(self, name: str, last: int) -> int | None:
        there = self.read(name)
        return None if there is None else self.remove(name, [place for place, _ in there[: len(there) - last]])

    def remove(self, name: str, places: Sequence[str]) -> int | None:
        there = self.read(name)
        if there is None:
            return None
        left = [one for one in there if one[0] not in places]
        if there:
            self.kept[name] = (left, self.kept[name][1])
        return len(there) - len(left)

    def drop(self, name: str) -> bool | None:
        there = self.read(name)
        if there is not None:
            self.kept.pop(name, None)
        return None if there is None else bool(there)
