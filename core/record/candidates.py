"""What ranking reads of records: enough to judge hits and to see what stands around them, and no text."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from core.model.query import Filters
from core.record.database import Session
from core.record.keywords import K1, Asked, B, filter_values
from core.record.queries import query


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A record behind a hit. `thread` is the session (`is_turn`) or note it stands in, `place` its order there."""

    point: uuid.UUID
    id: str
    version: int
    tier: str
    type: str
    tags: tuple[str, ...]
    speaker: str | None
    created_at: datetime
    thread: uuid.UUID | None
    place: int | None
    is_turn: bool


@dataclass(frozen=True, slots=True)
class Beside:
    """`beside` stands so far after `point` in its thread (before it: below zero)."""

    point: uuid.UUID
    beside: uuid.UUID
    distance: int


def candidates(
    session: Session, tenant: str, points: Sequence[uuid.UUID], filters: Filters
) -> dict[uuid.UUID, Candidate]:
    """The records behind points that are alive and meet the filters now."""
    values = {"tenant": tenant, "points": list(points), **filter_values(filters)}
    rows = session.execute(query("candidates"), values).fetchall()
    return {
        row["embedding_id"]: Candidate(
            point=row["embedding_id"],
            id=row["id"],
            version=int(row["version"]),
            tier=row["tier"],
            type=row["type"],
            tags=tuple(row["tags"]),
            speaker=row["speaker"],
            created_at=row["created_at"],
            thread=row["thread"],
            place=row["place"],
            is_turn=row["is_turn"],
        )
        for row in rows
    }


def beside(session: Session, tenant: str, known: Sequence[Candidate], reach: int) -> list[Beside]:
    """What stands up to `reach` before and after each of them in its thread; not judged yet."""
    placed = [one for one in known if one.thread is not None and one.place is not None]
    if not placed:
        return []
    values = {
        "tenant": tenant,
        "points": [one.point for one in placed],
        "threads": [one.thread for one in placed],
        "places": [one.place for one in placed],
        "ids": [one.id for one in placed],
        "reach": reach,
    }
    rows = session.execute(query("thread_beside"), values).fetchall()
    return [Beside(row["point"], row["beside"], int(row["distance"])) for row in rows]


def thread_scores(
    session: Session, tenant: str, asked: Asked, threads: Sequence[uuid.UUID], filters: Filters
) -> dict[uuid.UUID, float]:
    """BM25 of threads, each as one text of what meets the filters; those that hold no term asked are left out."""
    if not asked.terms or not threads:
        return {}
    counted = asked.counted
    values = {
        "tenant": tenant,
        "terms": list(asked.terms),
        "weights": list(asked.thread_weights),
        "threads": sorted(threads),
        "filtered": filters != Filters(),
        "k1": K1,
        "rest": 1 - B,
        "slope": B * counted.threads / max(1, counted.threaded_length),
        **filter_values(filters),
    }
    return {row["thread"]: float(row["score"]) for row in session.execute(query("thread_scores"), values).fetchall()}


def around(
    session: Session, tenant: str, lenders: Mapping[str, float], most: Mapping[str, int]
) -> dict[uuid.UUID, float]:
    """What memories, by id with what each has to give, lend to those that name the same entities; not judged yet.

    `most`: how many entities of a lender count (`names`), how many relations of an entity (`most`), and how many
    memories are lent to (`limit`).
    """
    values = {"tenant": tenant, "ids": list(lenders), "shares": list(lenders.values()), **most}
    return {row["point"]: float(row["share"]) for row in session.execute(query("graph_around"), values).fetchall()}


@dataclass(frozen=True, slots=True)
class Mark:
    """The number of a tenant's last change (None: there was none), and the database's time."""

    change: int | None
    moment: datetime


def change_mark(session: Session, tenant: str) -> Mark:
    """Where a tenant's record stands now."""
    row = session.execute(query("change_mark"), {"tenant": tenant}).fetchone()
    assert row is not None  # noqa: S101  a select without a FROM gives one row
    return Mark(row["mark"], row["moment"])
