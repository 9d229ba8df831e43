"""How long searches take, and how many lack something: counted in this process, for whoever watches it."""

from __future__ import annotations

import threading
from bisect import bisect_left
from itertools import accumulate

from core.model.metrics import Latencies

BOUNDS = (0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


class SearchTally:
    """Counts of searches by how long they took. Thread-safe; noting one takes about a microsecond."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts = [0] * (len(BOUNDS) + 1)
        self._seconds = 0.0
        self._degraded = 0
        self._failed = 0

    def answered(self, seconds: float, *, degraded: bool) -> None:
        """Note a search that was answered."""
        place = bisect_left(BOUNDS, seconds)
        with self._lock:
            self._counts[place] += 1
            self._seconds += seconds
            self._degraded += degraded

    def failed(self) -> None:
        """Note a search that ended with an error that is not the caller's."""
        with self._lock:
            self._failed += 1

    def latencies(self) -> Latencies:
        """All that was noted so far."""
        with self._lock:
            counts, seconds, degraded, failed = list(self._counts), self._seconds, self._degraded, self._failed
        within = tuple(zip(BOUNDS, accumulate(counts[:-1]), strict=True))
        return Latencies(within=within, count=sum(counts), seconds=seconds, degraded=degraded, failed=failed)
