"""What every search needs of a tenant first: its live generation, the engine's key and the database's time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from core.model.generation import Generation
from core.record import memories
from core.record.database import Database
from core.record.generations import live_generation

KEPT = timedelta(seconds=1)
MOST_TENANTS = 10_000


@dataclass(frozen=True, slots=True)
class Standing:
    """The live generation, collection and space as one (None: the tenant never wrote), and the moment it was read."""

    generation: Generation | None
    hash_key: bytes
    moment: datetime
    read_at: float

    def now(self, clock: float) -> datetime:
        """The database's time, by how long ago it was asked."""
        return self.moment + timedelta(seconds=max(0.0, clock - self.read_at))


class Standings:
    """The standings of tenants, each known for a moment. Thread-safe."""

    def __init__(self, database: Database, clock: Callable[[], float]) -> None:
        self._database = database
        self._clock = clock
        self._known: dict[str, Standing] = {}
        self._lock = threading.Lock()

    def of(self, tenant: str, *, fresh: bool = False) -> Standing:
        """A tenant's standing; `fresh` asks the record again. Raises Transient when it is out of reach."""
        now = self._clock()
        with self._lock:
            known = self._known.get(tenant)
        if known is not None and not fresh and now - known.read_at < KEPT.total_seconds():
            return known
        with self._database.tenant(tenant) as session:
            generation = live_generation(session, tenant)
            keys = memories.keys(session)
        standing = Standing(generation, keys.hash_key, keys.moment, now)
        with self._lock:
            if len(self._known) >= MOST_TENANTS:
                self._known.clear()
            if generation is not None:  # a first write must be seen at once
                self._known[tenant] = standing
        return standing
