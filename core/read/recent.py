"""What was asked lately, by tenant: real questions for judging a new index by. Kept in the cache for a while."""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Sequence
from datetime import timedelta

from core.ports import Cache

MOST = 100
LONGEST = 1000  # characters; what is longer is no question people ask
TOLD_EVERY = 20
MOST_TENANTS = 1000


class RecentQueries:
    """Notes questions, and tells the cache in batches what is new. Thread-safe. An indication: a few may be lost.

    `keep` of zero: nothing is noted.
    """

    def __init__(self, cache: Cache, keep: timedelta) -> None:
        self._cache = cache
        self._keep = keep
        self._lock = threading.Lock()
        self._new: OrderedDict[str, dict[str, None]] = OrderedDict()

    def note(self, tenant: str, text: str) -> None:
        """Somebody asked this. Never raises."""
        if self._keep <= timedelta(0) or len(text) > LONGEST:
            return
        full: list[str] = []
        with self._lock:
            asked = self._new.setdefault(tenant, {})
            asked.pop(text, None)
            asked[text] = None
            if len(asked) >= TOLD_EVERY:
                full = [tenant]
            elif len(self._new) > MOST_TENANTS:
                full = [next(iter(self._new))]
        for one in full:
            self._tell(one)

    def queries(self, tenant: str) -> Sequence[str]:
        """The newest distinct questions of a tenant, of all processes that told, oldest first."""
        with self._lock:
            new = list(self._new.get(tenant, ()))
        return _joined(self._told(tenant), new)

    def close(self) -> None:
        """Tell the cache what is new."""
        with self._lock:
            tenants = list(self._new)
        for tenant in tenants:
            self._tell(tenant)

    def _tell(self, tenant: str) -> None:
        with self._lock:
            new = list(self._new.pop(tenant, ()))
        if new:
            told = _joined(self._told(tenant), new)
            self._cache.put(_key(tenant), json.dumps(told).encode(), self._keep)

    def _told(self, tenant: str) -> list[str]:
        kept = self._cache.get(_key(tenant))
        try:
            told = json.loads(kept) if kept else []
        except ValueError:  # of another release
            told = []
        return [one for one in told if isinstance(one, str)] if isinstance(told, list) else []


def _joined(before: Sequence[str], new: Sequence[str]) -> list[str]:
    fresh = dict.fromkeys(new)
    return [*(one for one in before if one not in fresh), *fresh][-MOST:]


def _key(tenant: str) -> str:
    return f"asked:{tenant}"
