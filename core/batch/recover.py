"""The recover chore: a lost or damaged index from record and snapshot; only what nobody kept is embedded again.

`plan` chooses the tenants, `step` does a bounded piece and says where the next one begins. Run again it finds what
is right already and goes on from there.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Literal

from core.errors import Busy, LeaseLost, NotFound, Transient
from core.index.known import KnownVectors
from core.index.recovery import PAGE, ReadAhead, Recovery, Restored
from core.index.snapshots.reading import newest_of
from core.model.generation import Generation, GenerationState
from core.ports import BlobStore, BulkLoads, Locks, VectorIndex
from core.record.database import Database
from core.record.fences import LockName, fenced
from core.record.kept import NIL, generations_kept, keys, mark_recovery

WORK = "recover"
CANNOT = (GenerationState.DROPPED, GenerationState.ABORTED)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoverWork:
    """What a step works with. `portion` memories or points are gone through at the most; `check` may raise.

    `known` are vectors kept elsewhere, for the estimate of a dry run; `swapping` tells whether a tenant's alias is
    just being moved. `keep` is how long the lock lasts without being renewed.
    """

    database: Database
    index: VectorIndex
    blobs: BlobStore
    locks: Locks
    new_id: Callable[[], uuid.UUID]
    keep: timedelta
    portion: int = 20_000
    known: Sequence[KnownVectors] = ()
    loads: BulkLoads | None = None
    swapping: Callable[[str], bool] = lambda _tenant: False
    check: Callable[[], None] = lambda: None


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where the next step begins. `empty`: the collection held nothing when the recovery began."""

    phase: Literal["begin", "records", "orphans"]
    after: uuid.UUID
    empty: bool


BEGINNING = Cursor("begin", NIL, empty=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What one or several steps found and did for a tenant's generation; see `Restored`.

    `alias` is what the alias named before it was put right ("": nothing), None where it was right. `snapshot` is how
    many rows the snapshot holds, None where there is none. `damaged` names parts that were not used. `skipped`
    says why nothing could be done. `cursor` is where the next step begins, None once all is done.
    """

    tenant: str
    generation: int = 0
    provider: str = ""
    model: str = ""
    figures: Restored = field(default_factory=Restored)
    alias: str | None = None
    snapshot: int | None = None
    damaged: tuple[str, ...] = ()
    skipped: str | None = None
    cursor: Cursor | None = None


def plan(tenants: Iterable[str]) -> list[str]:
    """The tenants to recover, each once, in order."""
    return list(dict.fromkeys(tenants))


def step(
    work: RecoverWork, tenant: str, cursor: Cursor = BEGINNING, number: int | None = None, *, dry: bool = False
) -> Report:
    """Do one piece for the tenant's live generation (or `number`). Can be killed anywhere, and run beside others.

    Raises Transient when a store is out of reach: without the object store it would embed what is kept there.
    """
    name = LockName(tenant=tenant, work=WORK)
    try:
        if dry:
            return _piece(work, tenant, cursor, number, alive=work.check, dry=True)
        with fenced(work.database, work.locks, name, work.new_id().hex, work.keep) as held:

            def alive() -> None:
                work.check()
                held.renew()

            return _piece(work, tenant, cursor, number, alive=alive, dry=False)
    except (Busy, LeaseLost) as problem:
        if isinstance(problem, Busy) and problem.details.get("work") != WORK:
            raise
        return Report(tenant=tenant, skipped="it is being recovered elsewhere")


def total(tenant: str, reports: Sequence[Report]) -> Report:
    """The reports of one tenant as one."""
    summed = Restored()
    for report in reports:
        for name in Restored.__slots__:
            setattr(summed, name, getattr(summed, name) + getattr(report.figures, name))
    if not reports:
        return Report(tenant=tenant)
    damaged = tuple(dict.fromkeys(one for report in reports for one in report.damaged))
    moved = [report.alias for report in reports if report.alias is not None]
    return replace(reports[-1], figures=summed, damaged=damaged, alias=moved[0] if moved else None)


def _piece(
    work: RecoverWork, tenant: str, cursor: Cursor, number: int | None, *, alive: Callable[[], None], dry: bool
) -> Report:
    generation = _chosen(work.database, tenant, number)
    if generation is None:
        return Report(tenant=tenant, skipped="it has never written anything")
    with work.database.tenant(tenant) as session:
        check = keys(session).hash_check
    kept = newest_of(work.blobs, generation, check)
    recovery = Recovery(
        database=work.database,
        index=work.index,
        generation=replace(generation, recovering=True),
        kept=kept,
        known=work.known,
        swapping=work.swapping,
        dry=dry,
    )
    report = Report(
        tenant=tenant,
        generation=generation.number,
        provider=generation.space.provider,
        model=generation.space.model,
        snapshot=None if kept is None else kept.manifest.rows,
    )
    if not dry:
        mark_recovery(work.database, generation, work.keep)
    if cursor.phase == "begin":
        cursor = Cursor("records", NIL, empty=recovery.prepare())
        _bulk(work, generation, begin=cursor.empty and not dry)
    following, pages = cursor, max(1, work.portion // PAGE)
    with closing(ReadAhead(recovery)) as ahead:
        for left in reversed(range(pages)):
            alive()
            if not dry:
                mark_recovery(work.database, generation, work.keep)
            moved = _go_on(recovery, ahead, following, report.figures, more=left > 0)
            if moved is None:
                _bulk(work, generation, begin=False, end=not dry)
                report = replace(report, alias=recovery.alias())
                if not dry:
                    mark_recovery(work.database, generation, timedelta(0))
                break
            following = moved
        else:
            report = replace(report, cursor=following)
    return replace(report, damaged=() if kept is None else tuple(kept.shelf.damaged))


def _go_on(recovery: Recovery, ahead: ReadAhead, cursor: Cursor, figures: Restored, *, more: bool) -> Cursor | None:
    """One page; where the next begins, None: there is none."""
    if cursor.phase == "records":
        looked = ahead.page(cursor.after, empty=cursor.empty, more=more)
        after = recovery.records(looked, figures, empty=cursor.empty)
        if after is not None:
            return replace(cursor, after=after)
        # What was put into an empty collection since was looked at again by whoever put it.
        return None if cursor.empty else Cursor("orphans", NIL, empty=False)
    after = recovery.orphans(cursor.after, figures)
    return None if after is None else replace(cursor, after=after)


def _bulk(work: RecoverWork, generation: Generation, *, begin: bool, end: bool = False) -> None:
    """Tell the index that much is coming, or has come; not being able to is no reason to stop."""
    if work.loads is None:
        return
    try:
        if begin:
            work.loads.begin_bulk(generation.collection)
        if end:
            work.loads.end_bulk(generation.collection)
    except (Transient, NotFound):
        return


def _chosen(database: Database, tenant: str, number: int | None) -> Generation | None:
    known = [one for one in generations_kept(database, tenant) if one.state not in CANNOT]
    if number is not None:
        chosen = [one for one in known if one.number == number]
        if not chosen:
            raise NotFound(f"{tenant} has no generation {number} that is kept up to date")
        return chosen[0]
    live = [one for one in known if one.state is GenerationState.LIVE]
    return live[0] if live else None
