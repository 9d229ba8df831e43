"""What looking for drift asks of the record, and notes in it. No content is read here."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from psycopg.rows import namedtuple_row, tuple_row
from psycopg.types.json import Jsonb

from core.model.coverage import Coverage, LeasedRun
from core.model.drift import Depth, Span, StoreReport, Verdict, as_plain, from_plain, spans_of
from core.model.generation import GenerationState
from core.model.point import Indexable
from core.record.database import Database, Session
from core.record.queries import query

FOLDED_AT_ONCE = 20_000
MOST_FOLDS = 100


@dataclass(frozen=True, slots=True)
class Figures:
    """A tenant at one moment, for one generation: what its index should hold, the digest of that, and what waits.

    `state` None: the generation is not known. `recovering`: its index is just being rebuilt.
    """

    records: int
    digest: int
    waiting: int
    state: GenerationState | None
    recovering: bool


@dataclass(frozen=True, slots=True)
class PointStanding:
    """What the record says of the memory behind a point. `memory_id` None: there is no such row.

    `settled`: it has said so for the minimum age. `waits`: index work of it is still to do; `aside`: it was set aside.
    """

    memory_id: str | None
    version: int
    indexed: bool
    settled: bool
    waits: bool
    aside: bool


@dataclass(frozen=True, slots=True)
class State:
    """How a store stood when it was last looked at."""

    verdict: Verdict
    unsettled_for: timedelta | None
    compared_ago: timedelta | None
    clean_at: datetime | None


def figures(database: Database, tenant: str, generation: int) -> Figures:
    """The figures of now."""
    with database.tenant(tenant) as session:
        row = session.execute(query("drift_figures"), {"tenant": tenant, "generation": generation}).fetchone()
    assert row is not None  # noqa: S101  a SELECT without FROM
    state = None if row["state"] is None else GenerationState(row["state"])
    return Figures(int(row["records"]), int(row["digest"]), int(row["waiting"]), state, bool(row["recovering"]))


def digests(database: Database, tenant: str) -> dict[int, tuple[int, int]]:
    """Number and digest of what an index should hold, by stretch of ids, as of one moment."""
    with database.tenant(tenant) as session:
        rows = session.execute(query("drift_digest"), {"tenant": tenant}).fetchall()
    return {int(row["stretch"]): (int(row["points"]), int(row["digest"])) for row in rows}


def fold(database: Database, tenant: str) -> int:
    """Bring the differences writers left into the base, a bounded number of them; how many."""
    folded = 0
    for _ in range(MOST_FOLDS):
        with database.across() as session:
            row = session.execute(query("drift_fold"), {"tenant": tenant, "limit": FOLDED_AT_ONCE}).fetchone()
        done = 0 if row is None else int(row["folded"])
        folded += done
        if done < FOLDED_AT_ONCE:
            break
    return folded


def recount(database: Database, tenant: str, first: int, last: int, *, dry: bool) -> list[int]:
    """Set the figures of some stretches right by counting the rows; those whose figures were wrong."""
    (span,) = spans_of(range(first, last + 1))
    values = {"tenant": tenant, "first": first, "last": last, "from": span.first, "to": span.last, "dry": dry}
    with database.across() as session:
        session.execute(query("drift_recount_lock"), {"tenant": tenant})
        rows = session.execute(query("drift_recount"), values).fetchall()
    return [int(row["stretch"]) for row in rows]


def page(database: Database, tenant: str, span: Span, limit: int) -> list[tuple[bytes, int]]:
    """The first points of a span that an index should hold, as bytes, with their versions."""
    values = {"tenant": tenant, "first": span.first, "last": span.last, "limit": limit}
    with (
        database.tenant(tenant) as session,
        session.cursor(binary=True, row_factory=tuple_row) as cursor,
    ):
        cursor.execute(query("drift_page"), values)
        return cursor.fetchall()


def standings(
    database: Database, tenant: str, generation: int, points: Sequence[uuid.UUID], age: timedelta
) -> dict[uuid.UUID, PointStanding]:
    """What the record says now of the memories behind points."""
    values = {"tenant": tenant, "generation": generation, "points": list(points), "age": age}
    with database.tenant(tenant) as session:
        rows = session.execute(query("drift_standing"), values).fetchall()
    return {
        row["point"]: PointStanding(
            row["id"], int(row["version"] or 0), row["indexed"], row["settled"], row["waits"], row["aside"]
        )
        for row in rows
    }


def bare(session: Session, tenant: str, points: Sequence[uuid.UUID]) -> dict[uuid.UUID, Indexable]:
    """What the payloads of points are made of, for those an index should hold."""
    with session.cursor(binary=True, row_factory=namedtuple_row) as cursor:
        cursor.execute(query("drift_bare"), {"tenant": tenant, "points": list(points)})
        rows: list[Any] = cursor.fetchall()
    return {row.embedding_id: row for row in rows}


def tenants_to_look_at(database: Database, tenants: Sequence[str] | None, limit: int) -> list[tuple[str, int]]:
    """Up to `limit` tenants with about how many records each has, those not looked at for longest first."""
    values = {"tenants": None if tenants is None else list(tenants), "limit": limit}
    with database.across() as session:
        return [(row["tenant"], int(row["records"])) for row in session.execute(query("drift_tenants"), values)]


def states(database: Database, tenant: str) -> dict[tuple[str, int], State]:
    """How each store of a tenant stood, by name and generation."""
    with database.tenant(tenant) as session:
        rows = session.execute(query("drift_state"), {"tenant": tenant}).fetchall()
    return {
        (row["store"], int(row["generation"])): State(
            Verdict(row["verdict"]), row["unsettled_for"], row["compared_ago"], row["clean_at"]
        )
        for row in rows
    }


def keep(database: Database, report: StoreReport, report_id: uuid.UUID, keep_for: timedelta) -> None:
    """Note how a store stands, and the report itself where it says more than that all is well by its numbers."""
    named = {"tenant": report.tenant, "store": report.store, "generation": report.generation}
    counted = report.depth is Depth.COUNTS
    state = {
        **named,
        "verdict": report.verdict.value,
        "points": report.points,
        "counted": report.verdict is Verdict.CLEAN,
        "clean": report.verdict is Verdict.CLEAN and not counted,
        "found": report.verdict is Verdict.DRIFT,
        "unsettled": report.verdict is Verdict.UNSETTLED,
    }
    with database.tenant(report.tenant) as session:
        session.execute(query("drift_state_put"), state)
        if counted and report.verdict is not Verdict.DRIFT:
            return
        values = {
            **named,
            "id": report_id,
            "depth": report.depth.value,
            "verdict": report.verdict.value,
            "records": report.records,
            "points": report.points,
            "findings": Jsonb(as_plain(report.findings)),
            "note": "; ".join(filter(None, (report.alarm, report.note))) or None,
            "dry": report.dry,
        }
        session.execute(query("drift_report_put"), values)
        session.execute(query("drift_report_sweep"), {"tenant": report.tenant, "keep": keep_for})


def reports(database: Database, tenants: Sequence[str] | None, limit: int) -> list[StoreReport]:
    """The newest `limit` reports of each tenant (all, or those named), newest first."""
    values = {"tenants": None if tenants is None else list(tenants), "limit": limit}
    with database.across() as session:
        rows = session.execute(query("drift_report_list"), values).fetchall()
    return [
        StoreReport(
            tenant=row["tenant"],
            store=row["store"],
            generation=int(row["generation"]),
            depth=Depth(row["depth"]),
            verdict=Verdict(row["verdict"]),
            records=row["records"],
            points=row["points"],
            findings=from_plain(row["findings"]),
            note=row["note"] or "",
            dry=row["dry"],
            at=row["at"],
        )
        for row in rows
    ]


def coverage(database: Database, tenants: Sequence[str] | None = None) -> list[Coverage]:
    """Coverage and lag of every index that is not dropped, and of the other stores, of all tenants or those named."""
    values = {"tenants": None if tenants is None else list(tenants), "most": None}
    with database.across() as session:
        return [Coverage(**row) for row in session.execute(query("coverage"), values).fetchall()]


def runs(database: Database, tenants: Sequence[str] | None = None) -> list[LeasedRun]:
    """Who holds work of the tenants (all, or those named) under a lease, and those whose lease has run out."""
    values = {"tenants": None if tenants is None else list(tenants)}
    with database.across() as session:
        return [LeasedRun(**row) for row in session.execute(query("runs"), values).fetchall()]
