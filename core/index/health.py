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
        points: int | None
        try:
            points = index.count(one.generation.collection)
        except NotFound:
            points = 0
        except Transient:
            points = None
        due = max(0, one.wanted - one.waiting)
        found.append(IndexHealth(tenant=one.generation.tenant, due=due, points=points))
    return found
