"""The queue of orphans: points to be taken out of an index, once they have been found wrong for long enough."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from core.model.drift import Kind
from core.model.generation import Generation
from core.record.database import Database
from core.record.queries import query

_NAMES = {Kind.ORPHAN: "orphan", Kind.AHEAD: "ahead", Kind.VECTOR: "vector"}
_KINDS = {name: kind for kind, name in _NAMES.items()}


@dataclass(frozen=True, slots=True)
class Orphan:
    """A point, the version it had when it was found, and what is wrong with it."""

    point: uuid.UUID
    version: int
    kind: Kind


@dataclass(frozen=True, slots=True)
class Orphans:
    """The queue of all tenants. Every method is one transaction."""

    database: Database

    def add(self, generation: Generation, found: Mapping[uuid.UUID, tuple[int, Kind]]) -> None:
        """Enqueue points with their versions; one that waits already keeps its time."""
        if not found:
            return
        points = sorted(found)
        values = {
            **_of(generation),
            "points": points,
            "versions": [found[point][0] for point in points],
            "kinds": [_NAMES[found[point][1]] for point in points],
        }
        with self.database.tenant(generation.tenant) as session:
            session.execute(query("orphan_add"), values)

    def due(self, generation: Generation, age: timedelta, limit: int) -> list[Orphan]:
        """Those that have waited for `age`, in the order of points."""
        with self.database.tenant(generation.tenant) as session:
            rows = session.execute(query("orphan_due"), {**_of(generation), "age": age, "limit": limit}).fetchall()
        return [Orphan(row["point"], int(row["version"]), _KINDS[row["kind"]]) for row in rows]

    def drop(self, generation: Generation, points: Sequence[uuid.UUID]) -> None:
        """Take points out of the queue."""
        if points:
            with self.database.tenant(generation.tenant) as session:
                session.execute(query("orphan_drop"), {**_of(generation), "points": list(points)})

    def waiting(self, tenant: str) -> dict[int, int]:
        """How many points wait, by generation."""
        with self.database.tenant(tenant) as session:
            rows = session.execute(query("orphan_waiting"), {"tenant": tenant}).fetchall()
        return {int(row["generation"]): int(row["waiting"]) for row in rows}


def _of(generation: Generation) -> dict[str, object]:
    return {"tenant": generation.tenant, "generation": generation.number}
