"""Entries of the outbox: index work still to do, one a (generation, memory)."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum

from core.model.generation import Generation


class Lane(IntEnum):
    """Which work goes first: what somebody just wrote, then backfill and repair."""

    ONLINE = 0
    BACKFILL = 1


@dataclass(frozen=True, slots=True)
class Entry:
    """One claimed entry. `seq` is what the row said when it was claimed; it rises with every enqueue.

    `attempts` counts the claims of this state of the record that ended neither well nor by a
    release, the one now running included: a worker that dies leaves it higher.
    """

    memory_id: str
    seq: int
    attempts: int


@dataclass(frozen=True, slots=True)
class Claim:
    """A batch of entries of one generation under one lease."""

    owner: uuid.UUID
    generation: Generation
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class SetAside:
    """An entry taken out of the queue, with the reason, until somebody retries or drops it."""

    tenant: str
    generation: int
    memory_id: str
    reason: str
    since: datetime


@dataclass(frozen=True, slots=True)
class Backlog:
    """What is still to do for one tenant, counted without reading any content.

    `in_batch` of what waits is held for a batch job.
    """

    tenant: str
    records: int
    waiting: int
    set_aside: int
    oldest_waiting: datetime | None
    in_batch: int = 0

    @property
    def to_do(self) -> int:
        """What can be worked on, now or soon."""
        return self.waiting - self.in_batch
