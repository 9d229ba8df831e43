"""What snapshots and recovery ask of the record, and note in it. No content is read here."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from psycopg.rows import namedtuple_row

from core.model.generation import Generation
from core.model.point import Indexable
from core.model.space import text_hash
from core.record import memories
from core.record.database import Database, Session
from core.record.generations import generation_of, generations
from core.record.queries import query

NIL = uuid.UUID(int=0)
_ZERO = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class PointRecord:
    """The record of a point: the memory's id and version, since when (microseconds), and whether it is indexed."""

    id: str
    version: int
    moment: int
    indexed: bool


class Bare(Indexable, Protocol):
    """A memory without its content, and the same of it as `PointRecord` tells."""

    @property
    def moment(self) -> int:
        """Since when it is at its version, in microseconds since 1970."""

    @property
    def indexed(self) -> bool:
        """Whether an index should hold it."""


@dataclass(frozen=True, slots=True)
class Expected:
    """How many memories the index of a live generation should hold, and how many of those still wait."""

    generation: Generation
    wanted: int
    waiting: int


@dataclass(frozen=True, slots=True)
class Keys:
    """The database's time and epoch, and what tells that text hashes were made with its key."""

    moment: datetime
    epoch: int
    hash_check: str


def keys(session: Session) -> Keys:
    """What a snapshot is stamped with. Only a tenant's transaction may read it."""
    found = memories.keys(session)
    return Keys(found.moment, found.epoch, text_hash("a snapshot's check", found.hash_key))


def generations_kept(database: Database, tenant: str) -> list[Generation]:
    """Every generation of a tenant, oldest first."""
    with database.tenant(tenant) as session:
        return generations(session, tenant)


def of_points(session: Session, tenant: str, points: Sequence[uuid.UUID]) -> dict[uuid.UUID, PointRecord]:
    """The records behind points whose rows are there, tombstones included."""
    rows = session.execute(query("memory_of_points"), {"tenant": tenant, "points": list(points)}).fetchall()
    return {
        row["embedding_id"]: PointRecord(
            row["id"], int(row["version"]), microseconds(row["updated_at"]), row["indexed"]
        )
        for row in rows
    }


def page(session: Session, tenant: str, after: uuid.UUID, limit: int) -> list[Bare]:
    """The tenant's memories in the order of point ids, behind `after`, tombstones included."""
    # Plain tuples with names, in binary: a recovery reads as many rows a second as an index can take.
    with session.cursor(binary=True, row_factory=namedtuple_row) as cursor:
        cursor.execute(query("recover_page"), {"tenant": tenant, "after": after, "limit": limit})
        rows: list[Any] = cursor.fetchall()
    return rows


def moved(session: Session, tenant: str, versions: Mapping[str, int]) -> list[str]:
    """Those of the memories, by id, that an index should not, or no longer, hold at these versions."""
    values = {"tenant": tenant, "ids": list(versions), "versions": list(versions.values())}
    return [row["id"] for row in session.execute(query("memory_moved"), values).fetchall()]


def enqueue_for(session: Session, generation: Generation, ids: Sequence[str]) -> None:
    """Have the drain bring memories to one generation, and look for their vectors in snapshots."""
    of = {"tenant": generation.tenant, "generation": generation.number}
    session.execute(query("generation_barrier_shared"), {"tenant": generation.tenant})
    session.execute(query("recovery_begin"), of)
    session.execute(query("recover_enqueue"), {**of, "ids": sorted(ids)})


def mark_recovery(database: Database, generation: Generation, keep: timedelta) -> None:
    """A recovery is under way, for `keep` from now unless it says so again: nobody else judges the generation."""
    values = {"tenant": generation.tenant, "generation": generation.number, "keep": keep}
    with database.tenant(generation.tenant) as session:
        session.execute(query("recovery_running"), values)


def end_recoveries(database: Database) -> int:
    """Take the mark off generations whose recovery has nothing left to do; how many those were."""
    with database.across() as session:
        return len(session.execute(query("recovery_end")).fetchall())


def expected(database: Database, tenants: Sequence[str] | None, limit: int) -> list[Expected]:
    """What the indexes of live generations should hold, of up to `limit` tenants."""
    with database.across() as session:
        values = {"tenants": None if tenants is None else list(tenants), "limit": limit}
        rows = session.execute(query("index_expected"), values).fetchall()
    return [Expected(generation_of(row), int(row["wanted"]), int(row["waiting"])) for row in rows]


def microseconds(moment: datetime) -> int:
    """A time as whole microseconds since 1970, as PostgreSQL keeps it."""
    return (moment - _ZERO) // _MICROSECOND
