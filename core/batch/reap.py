"""The reap chore: what is at its end is deleted; what was deleted is purged from every store, the row last of all.

Five phases, each in bounded steps: `expire` (deleted for every reader at once), `graph` (relations that only deleted
memories support, and entities that nothing names any more), `purge` (points in every generation, objects, cache; then
the row, which leaves a tombstone), `trim` (old versions, events and tombstones, each by a retention of its own),
`sweep` (objects no record points at).
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import islice

from core.errors import Busy, Transient
from core.index.points_removal import remove_points
from core.model.names import index_group, parse_archive_key
from core.model.policy import Policies
from core.ports import BlobStore, Cache, Locks, VectorIndex
from core.record import archives, graph, reaping
from core.record.contents import CONTENT_KEPT, cache_key
from core.record.database import Database
from core.record.fences import LockName, fenced
from core.record.generations import generations
from core.record.objects import purge
from core.record.reaping import Deleted

LOCK_KEPT = timedelta(minutes=10)


class Phase(StrEnum):
    """What a step does; in this order."""

    EXPIRE = "expire"
    GRAPH = "graph"
    PURGE = "purge"
    TRIM = "trim"
    SWEEP = "sweep"
    STRANGERS = "strangers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Portion:
    """Where a tenant's run stands: a phase, and for `purge` behind which deletion."""

    tenant: str
    phase: Phase = Phase.EXPIRE
    after: tuple[datetime, str] = (reaping.BEGINNING, "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What one or several steps did for a tenant; `next` is where to go on, None: done.

    `waiting` deleted memories are not out of every store yet, or a worker still holds them. `postponed` says why a
    run ended early: it goes on by itself the next time.
    """

    tenant: str
    expired: int = 0
    purged: int = 0
    waiting: int = 0
    versions: int = 0
    events: int = 0
    tombstones: int = 0
    objects: int = 0
    relations: int = 0
    postponed: str | None = None
    next: Portion | None = None

    @property
    def worked(self) -> int:
        """Rows and objects that went."""
        rows = self.expired + self.purged + self.versions + self.events + self.tombstones + self.relations
        return rows + self.objects

    def plus(self, other: Report) -> Report:
        """This report with another one's figures, and where that one ended."""
        names = ("expired", "purged", "waiting", "versions", "events", "tombstones", "objects", "relations")
        return replace(other, **{name: getattr(self, name) + getattr(other, name) for name in names})


@dataclass(frozen=True, slots=True, kw_only=True)
class Spans:
    """How long things stay: a deleted row, a tombstone, an old version, an event, an object nobody points at."""

    purge_after: timedelta = timedelta(days=1)
    tombstones: timedelta = timedelta(days=400)
    versions: timedelta = timedelta(days=90)
    events: timedelta = timedelta(days=30)
    objects: timedelta = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReapWork:
    """What a step works with. `now` is for the age of objects of unknown origin, which only their store knows."""

    database: Database
    index: VectorIndex
    blobs: BlobStore
    cache: Cache
    locks: Locks
    policies: Policies
    spans: Spans
    new_id: Callable[[], uuid.UUID]
    now: Callable[[], datetime]
    batch: int = 2000
    check: Callable[[], None] = lambda: None


def plan(tenants: Sequence[str]) -> list[Portion]:
    """Where each tenant's run begins."""
    return [Portion(tenant=tenant) for tenant in tenants]


def step(work: ReapWork, portion: Portion) -> Report:
    """Do one batch of a phase. Killed anywhere, or run beside others, it leaves nothing half-done.

    A store out of reach, or another reaper of this tenant, ends the run early with `postponed`. Raises Misconfigured.
    """
    report = Report(tenant=portion.tenant)
    try:
        work.check()
        lock = LockName(tenant=portion.tenant, work="reap")
        with fenced(work.database, work.locks, lock, str(work.new_id()), LOCK_KEPT):
            return _PHASES[portion.phase](work, portion)
    except Busy as problem:
        return replace(report, postponed=problem.message)
    except Transient as problem:
        return replace(report, postponed=f"{portion.phase}: {problem.message}")


def total(tenant: str, reports: Iterable[Report]) -> Report:
    """The reports of one tenant as one."""
    summed = Report(tenant=tenant)
    for report in reports:
        summed = summed.plus(report)
    return summed


def _expire(work: ReapWork, portion: Portion) -> Report:
    with work.database.tenant(portion.tenant) as session:
        gone = reaping.expire(session, portion.tenant, work.policies, work.batch)
    following = portion if gone else replace(portion, phase=Phase.GRAPH)
    return Report(tenant=portion.tenant, expired=gone, next=following)


def _graph(work: ReapWork, portion: Portion) -> Report:
    with work.database.tenant(portion.tenant) as session:
        gone = graph.forget_dead(session, portion.tenant, work.batch)
    following = portion if gone else replace(portion, phase=Phase.PURGE)
    return Report(tenant=portion.tenant, relations=gone, next=following)


def _purge(work: ReapWork, portion: Portion) -> Report:
    tenant = portion.tenant
    with work.database.tenant(tenant) as session:
        deleted = reaping.purgeable(session, tenant, work.spans.purge_after, portion.after, work.batch)
        places = generations(session, tenant)
        objects = archives.objects_of(session, tenant, [one.id for one in deleted]) if deleted else []
    if not deleted:
        return Report(tenant=tenant, next=Portion(tenant=tenant, phase=Phase.TRIM))
    left = remove_points(work.index, places, {one.embedding_id: one.version for one in deleted})
    not_out = set().union(*left.values())
    arriving = {one.memory_id for one in objects if one.arriving}
    ready = [one for one in deleted if one.embedding_id not in not_out and one.id not in arriving]
    _remove_objects(work, tenant, ready, objects)
    for one in ready:
        work.cache.drop_older(cache_key(one.embedding_id.hex), one.version, CONTENT_KEPT)
    with work.database.tenant(tenant) as session:
        versions = {one.id: one.version for one in ready}
        purged = reaping.purge(session, tenant, versions, [place.number for place in places])
        relations = graph.forget(session, tenant, sorted(purged))
    last = deleted[-1]
    return Report(
        tenant=tenant,
        purged=len(purged),
        relations=relations,
        waiting=len(deleted) - len(purged),
        next=replace(portion, after=(last.deleted_at, last.id)),
    )


def _remove_objects(work: ReapWork, tenant: str, ready: Sequence[Deleted], objects: Sequence[archives.Object]) -> None:
    ids = {one.id for one in ready}
    keys = [one.key for one in objects if one.memory_id in ids]
    if not keys:
        return
    purge(work.blobs, keys)
    there = [key for key in keys if work.blobs.stat(key) is not None]
    with work.database.tenant(tenant) as session:
        archives.drop_objects(session, tenant, sorted(set(keys) - set(there)))


def _trim(work: ReapWork, portion: Portion) -> Report:
    tenant, spans = portion.tenant, work.spans
    kept = {"versions": spans.versions, "events": spans.events, "tombstones": spans.tombstones}
    gone = {}
    for what, span in kept.items():
        with work.database.tenant(tenant) as session:
            gone[what] = reaping.trim(session, tenant, what, span, work.batch)
    more = any(count >= work.batch for count in gone.values())
    following = portion if more else Portion(tenant=tenant, phase=Phase.SWEEP)
    return Report(
        tenant=tenant,
        versions=gone["versions"],
        events=gone["events"],
        tombstones=gone["tombstones"],
        next=following,
    )


def _sweep(work: ReapWork, portion: Portion) -> Report:
    """Announced objects that no record points at: marked, looked at again, removed, forgotten."""
    tenant = portion.tenant
    with work.database.tenant(tenant) as session:
        marked = archives.mark_orphans(session, tenant, work.spans.objects, work.batch)
    if not marked:
        return Report(tenant=tenant, next=replace(portion, phase=Phase.STRANGERS))
    return Report(tenant=tenant, objects=_remove_marked(work, tenant, marked), next=portion)


def _strangers(work: ReapWork, portion: Portion) -> Report:
    """Objects under the tenant's name that nobody announced: a put that came after its announcement was swept.

    Only keys that an archive has, of this very tenant, older than the grace time by the store's own clock.
    """
    tenant, grace = portion.tenant, work.spans.objects
    oldest = work.now() - grace
    listed = work.blobs.list(f"{index_group(tenant)}/")
    old = ((info.key, parse_archive_key(info.key)) for info in listed if info.modified <= oldest)
    ours = ((key, parsed) for key, parsed in old if parsed is not None and parsed[0] == tenant)
    swept = 0
    while piece := dict(islice(ours, work.batch)):
        named = {key: (memory_id, version) for key, (_, memory_id, version) in piece.items()}
        with work.database.tenant(tenant) as session:
            marked = archives.mark_strangers(session, tenant, named, grace)
        swept += _remove_marked(work, tenant, marked)
    return Report(tenant=tenant, objects=swept)


def _remove_marked(work: ReapWork, tenant: str, marked: Sequence[str]) -> int:
    with work.database.tenant(tenant) as session:
        orphans = archives.still_orphans(session, tenant, marked)
    purge(work.blobs, orphans)
    with work.database.tenant(tenant) as session:
        archives.end_sweep(session, tenant, orphans)
    return len(orphans)


_PHASES: dict[Phase, Callable[[ReapWork, Portion], Report]] = {
    Phase.EXPIRE: _expire,
    Phase.GRAPH: _graph,
    Phase.PURGE: _purge,
    Phase.TRIM: _trim,
    Phase.SWEEP: _sweep,
    Phase.STRANGERS: _strangers,
}
