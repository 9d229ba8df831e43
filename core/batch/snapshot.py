"""The snapshot chore: vectors of live generations to the object store, so that a lost index costs no embedding again.

`plan` lists what there is to do, `step` takes one portion of one generation's snapshot: the first time all of it,
then only what changed. A snapshot exists from the moment its manifest is written; every portion ends with one.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

from core.errors import Busy, Conflict, LeaseLost, NotFound
from core.index.snapshots.forgetting import WORK
from core.index.snapshots.shelf import Shelf, numbers
from core.index.snapshots.sweeping import sweep
from core.index.snapshots.writing import Pass
from core.model.generation import Generation, GenerationState
from core.model.snapshot import SnapshotRules, folder_name
from core.ports import BlobStore, Locks, VectorIndex
from core.record.database import Database
from core.record.fences import LockName, fenced
from core.record.kept import Keys, generations_kept, keys


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotWork:
    """What a step works with. `keep` is how long its lock lasts without being renewed; `check` may raise."""

    database: Database
    index: VectorIndex
    blobs: BlobStore
    locks: Locks
    rules: SnapshotRules
    new_id: Callable[[], uuid.UUID]
    keep: timedelta
    check: Callable[[], None] = lambda: None


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What one or several steps did for a tenant's live generation.

    `rows` were written in `parts` of `bytes`; `kept` is how many the snapshot has now. `dropped` vectors belong to
    memories that are gone; `moving` ones changed while they were read. `rewritten` buckets were compacted, `expired`
    snapshots and `swept` objects removed. `damaged` names parts that were not used because they are not as they were
    written. `loss` is the greatest 1 - cosine of what was written. `skipped` says why nothing could be done.
    """

    tenant: str
    generation: int = 0
    rows: int = 0
    parts: int = 0
    bytes: int = 0
    kept: int = 0
    unchanged: int = 0
    dropped: int = 0
    moving: int = 0
    rewritten: int = 0
    expired: int = 0
    swept: int = 0
    loss: float = 0.0
    damaged: tuple[str, ...] = field(default=())
    skipped: str | None = None
    done: bool = False


def plan(tenants: Iterable[str]) -> list[str]:
    """The tenants to take snapshots of, each once, in order."""
    return list(dict.fromkeys(tenants))


def step(work: SnapshotWork, tenant: str) -> Report:
    """Take one portion. Killed anywhere, run twice, or by two at once, the last whole snapshot stays what it was.

    A tenant whose snapshot is taken elsewhere, or that has no index yet, is `skipped`. Raises Transient when a
    store is out of reach.
    """
    name = LockName(tenant=tenant, work=WORK)
    try:
        with fenced(work.database, work.locks, name, work.new_id().hex, work.keep) as held:

            def alive() -> None:
                work.check()
                held.renew()

            live = [one for one in generations_kept(work.database, tenant) if one.state is GenerationState.LIVE]
            if not live:
                return Report(tenant=tenant, skipped="it has never written anything", done=True)
            return _portion(work, live[0], alive)
    except (Busy, LeaseLost, Conflict) as problem:
        if isinstance(problem, Busy) and problem.details.get("work") != WORK:
            raise  # an index folder, say
        return Report(tenant=tenant, skipped="a snapshot of it is being taken elsewhere", done=True)


def total(tenant: str, reports: Sequence[Report]) -> Report:
    """The reports of one tenant as one: sums, and of what the last one knows best its word."""
    summed = reports[-1] if reports else Report(tenant=tenant)
    names = ("rows", "parts", "bytes", "dropped", "moving", "rewritten", "expired", "swept", "unchanged")
    sums = {name: sum(getattr(report, name) for report in reports) for name in names}
    damaged = tuple(dict.fromkeys(one for report in reports for one in report.damaged))
    return replace(summed, **sums, damaged=damaged, loss=max((report.loss for report in reports), default=0.0))


def _portion(work: SnapshotWork, generation: Generation, alive: Callable[[], None]) -> Report:
    with work.database.tenant(generation.tenant) as session:
        now: Keys = keys(session)
    shelf = Shelf(work.blobs, folder_name(generation))
    there = shelf.objects()
    base = shelf.newest(there)
    if base is not None and base.hash_check != now.hash_check:
        base = None  # of another database: no hash of it says anything here
    taking = Pass(work.database, work.index, shelf, generation, work.rules, now, work.new_id, alive)
    try:
        manifest = taking.run(base, max(numbers(there), default=0) + 1)
    except NotFound:
        return Report(
            tenant=generation.tenant,
            generation=generation.number,
            skipped="it has no index: nothing was embedded yet, or it is lost (memory recover)",
            done=True,
        )
    if manifest is not None:
        alive()
        shelf.put_manifest(manifest)
    now_kept, wrote = manifest or base, taking.written
    report = Report(
        tenant=generation.tenant,
        generation=generation.number,
        rows=wrote.rows,
        parts=wrote.parts,
        bytes=wrote.bytes,
        kept=0 if now_kept is None else now_kept.rows,
        unchanged=wrote.unchanged,
        dropped=wrote.dropped,
        moving=wrote.moving,
        rewritten=wrote.rewritten,
        loss=wrote.loss,
        damaged=tuple(shelf.damaged),
        done=now_kept is None or now_kept.cursor is None,
    )
    if not report.done:
        return report
    alive()
    swept = sweep(work.blobs, generation.tenant, {shelf.folder}, work.rules, now.moment)
    return replace(report, expired=swept.manifests, swept=swept.objects)
