"""Events: what happened to a memory, as those outside the engine are told."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Event:
    """One change. `seq` rises in the order of the changes of each memory; a repeated event has the same one."""

    seq: int
    kind: str
    memory_id: str
    version: int
    at: datetime


@dataclass(frozen=True, slots=True)
class EventLag:
    """Events a tenant's stream was not given yet (counted up to a bound), since when, and when it last got some."""

    tenant: str
    waiting: int
    oldest: datetime | None
    relayed_at: datetime | None
