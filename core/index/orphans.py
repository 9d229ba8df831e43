"""Taking out of an index what the record does not want: the other end of the queue of orphans.

Each point is looked at again before it goes, the delete is guarded by the version that was found, and the record is
looked at once more after it: a memory that is wanted there now is handed to the outbox.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from core.errors import NotFound
from core.model.drift import Kind
from core.model.generation import Generation, GenerationState
from core.ports import VectorIndex
from core.record import drift
from core.record.backfill import Backfill
from core.record.database import Database
from core.record.drift import PointStanding
from core.record.orphans import Orphan, Orphans

AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Removed:
    """How many points were taken out, how many were spared because they are right now, and how many still wait."""

    removed: int
    spared: int
    waiting: int


@dataclass(frozen=True, slots=True)
class OrphanDrain:
    """Works off the queue of one generation."""

    database: Database
    index: VectorIndex
    generation: Generation

    def drain(self, age: timedelta, limit: int) -> Removed:
        """Take out up to `limit` points that were found `age` ago or longer. Killed anywhere, the next goes on.

        Raises Transient.
        """
        queue = Orphans(self.database)
        removed = spared = 0
        for _ in range(-(-limit // AT_ONCE)):
            due = queue.due(self.generation, age, AT_ONCE)
            if not due:
                break
            gone = self._take_out(due)
            queue.drop(self.generation, [one.point for one in due])
            removed += gone
            spared += len(due) - gone
        waiting = queue.waiting(self.generation.tenant).get(self.generation.number, 0)
        return Removed(removed, spared, waiting)

    def _take_out(self, due: Sequence[Orphan]) -> int:
        if self.generation.state is GenerationState.DROPPED:
            return 0
        collection = self.generation.collection
        points = [one.point for one in due]
        try:
            stamps = self.index.stamps(collection, points)
        except NotFound:
            return 0
        standings = self._standings(points)
        # What was written anew, at whatever version, is not what was found.
        doomed = {
            one.point: one.version
            for one in due
            if one.point in stamps and stamps[one.point].version == one.version and _still(one, standings[one.point])
        }
        self.index.delete(collection, doomed)
        wanted = [one.memory_id for one in self._standings(list(doomed)).values() if one.indexed and one.memory_id]
        if wanted:
            Backfill(self.database).enqueue(self.generation, wanted)
        return len(doomed)

    def _standings(self, points: Sequence[uuid.UUID]) -> dict[uuid.UUID, PointStanding]:
        if not points:
            return {}
        tenant, number = self.generation.tenant, self.generation.number
        return drift.standings(self.database, tenant, number, points, timedelta(0))


def _still(one: Orphan, standing: PointStanding) -> bool:
    """Is a point that is there at the version it was found at still wrong? The index was asked first."""
    if one.kind is Kind.ORPHAN:
        return not standing.indexed
    if standing.waits or not standing.indexed:
        return not standing.indexed
    return one.version > standing.version if one.kind is Kind.AHEAD else one.version == standing.version
