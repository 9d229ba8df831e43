"""Whether an index is mostly gone: a collection that vanished is made anew, empty, by the next write."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from core.errors import NotFound, Transient
from core.ports import VectorIndex
from core.record.database import Database
from core.record.kept import expected


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexHealth:
    """Of a tenant's live generation: how many points there should be by now, and how many there are.

    `points` None: the index is out of reach, and nobody can say.
    """

    tenant: str
    due: int
    points: int | None

    @property
    def mostly_gone(self) -> bool:
        """More than half of what should be there is missing: recover it."""
        return self.points is not None and 2 * self.points < self.due


def index_health(
    database: Database, index: VectorIndex, tenants: Sequence[str] | None, limit: int
) -> list[IndexHealth]:
    """Up to `limit` tenants, those named or any. What still waits, or was set aside, is not due."""
    found = []
    for one in expected(database, tenants, limit):
        due = max(0, one.wanted - one.waiting)
        points = points_in(index, one.generation.collection)
        found.append(IndexHealth(tenant=one.generation.tenant, due=due, points=points))
    return found


def points_in(index: VectorIndex, collection: str) -> int | None:
    """How many points a collection holds now, 0 where there is none; None: the index is out of reach."""
    try:
        return index.count(collection)
    except NotFound:
        return 0
    except Transient:
        return None
