"""How often the caches answer: counted here, and told to the cache's store for all processes together."""

from __future__ import annotations

import json
import threading
from collections import Counter
from datetime import timedelta

from core.ports import Cache

KINDS = ("query vectors", "answers")
KEPT = timedelta(days=7)
TOLD_EVERY = 64
_KEY = "rates"


class Rates:
    """Counts of look-ups and hits a kind of cache. Thread-safe. They are an indication, and may lose a few."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._lock = threading.Lock()
        self._new: Counter[str] = Counter()

    def count(self, kind: str, *, hit: bool) -> None:
        """Note a look-up."""
        with self._lock:
            self._new[f"{kind}:asked"] += 1
            self._new[f"{kind}:hit"] += hit
            due = self._new.total() >= TOLD_EVERY
        if due:
            self.tell()

    def tell(self) -> None:
        """Add what is new to what all processes have told."""
        with self._lock:
            new, self._new = self._new, Counter()
        if new:
            self._cache.put(_KEY, json.dumps(self._told() + new).encode(), KEPT)

    def rates(self) -> dict[str, tuple[int, int]]:
        """Look-ups and hits by kind, of every process that told, this one's latest included."""
        with self._lock:
            known = self._told() + self._new
        return {kind: (known[f"{kind}:asked"], known[f"{kind}:hit"]) for kind in KINDS}

    def _told(self) -> Counter[str]:
        kept = self._cache.get(_KEY)
        try:
            told = json.loads(kept) if kept else {}
        except ValueError:
            told = {}
        return Counter({str(name): int(count) for name, count in told.items()})
