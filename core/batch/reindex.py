"""The reindex chore: a tenant to another embedding space, while reads, writes and deletes go on (DESIGN.md section 6).

`begin` registers the new generation; `step` feeds it a bounded piece and says how far it is, while the embed chore
brings what was fed; `verify` puts it before the gate; `swap` makes it live. Each can be killed anywhere,
repeated, and done by another run: where it stands is in PostgreSQL.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from core.errors import Conflict, NotFound
from core.index.gate import Gate, repair
from core.index.swap import Swapper
from core.model.generation import Generation
from core.model.reindex import GateVerdict, GenerationStatus, Progress, Registered, SwapOutcome
from core.model.space import EmbeddingSpace
from core.ports import BulkLoads, VectorIndex
from core.record.backfill import Backfill
from core.record.building import Building

# Records fed and not yet brought, at the most: what waits in the outbox is bounded, however large the tenant.
AHEAD = 20_000
# From so many records on an index is told that much is coming.
BULK = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One reindex under way, as its run carries it from step to step."""

    generation: Generation
    live: Generation
    runner: uuid.UUID
    resumed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a step fed, and how far the generation is. `done`: it has caught up and can be verified.

    `tokens`: what its model has taken for the tenant since the generation was registered.
    """

    tenant: str
    fed: int
    progress: Progress
    tokens: int
    done: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ReindexWork:
    """What the chore works with.

    `ahead` records are fed at the most before they are brought, or are in batch jobs. With a `batch_wait` what is fed
    is for batch jobs alone until that is over.
    """

    index: VectorIndex
    building: Building
    backfill: Backfill
    gate: Gate
    swapper: Swapper
    loads: BulkLoads | None = None
    ahead: int = AHEAD
    batch_wait: timedelta | None = None


def plan(progress: Progress, ahead: int, allowed: int | None) -> int:
    """How many records to feed now: no more than may wait at once, nor than is allowed (None: no limit)."""
    room = max(0, ahead - (progress.backfill - progress.in_jobs))
    return room if allowed is None else max(0, min(room, allowed))


def begin(work: ReindexWork, tenant: str, space: EmbeddingSpace, runner: uuid.UUID) -> Job | None:
    """Register the tenant's new generation, or take up the one begun before. None: the live one is in that space.

    A swap that a run left open is finished first. Raises NotFound, Conflict (one in another space is being
    built), Busy (another run drives it, or swaps).
    """
    work.swapper.settle(tenant, runner)
    registered: Registered | None = work.building.register(tenant, space, runner)
    if registered is None:
        return None
    generation = registered.generation
    work.backfill.split(generation)
    work.index.create(generation.collection, space.dimensions)
    progress = work.backfill.progress(generation)
    if work.loads is not None and progress.ranges * work.backfill.size >= BULK and not progress.caught_up:
        work.loads.begin_bulk(generation.collection)
    return Job(generation=generation, live=registered.live, runner=runner, resumed=registered.resumed)


def step(work: ReindexWork, job: Job, allowed: int | None = None) -> Report:
    """Feed a bounded piece, at most `allowed` records, and tell how far it is. Raises LeaseLost, Conflict."""
    work.building.drive(job.generation, job.runner)
    before = work.backfill.progress(job.generation)
    fed = work.backfill.feed(job.generation, plan(before, work.ahead, allowed), work.batch_wait)
    progress = work.backfill.progress(job.generation)
    return Report(
        tenant=job.generation.tenant,
        fed=fed,
        progress=progress,
        tokens=work.building.spent(job.generation),
        done=progress.caught_up,
    )


def verify(work: ReindexWork, job: Job, chance: random.Random, now: datetime) -> GateVerdict:
    """Put the generation before the gate and keep the verdict. What disagrees with the record is enqueued again.

    Raises LeaseLost, Conflict.
    """
    work.building.drive(job.generation, job.runner)
    if work.loads is not None:
        work.loads.end_bulk(job.generation.collection)
    verdict, found = work.gate.judge(job.generation, job.live, chance, now)
    if found.disagreeing:
        work.backfill.enqueue(job.generation, repair(work.index, job.generation, found))
    work.building.judge(job.generation, verdict)
    return verdict


def swap(work: ReindexWork, job: Job, grace: timedelta) -> SwapOutcome:
    """Make a verified generation live. Of two runs one swaps; the other is told that it is live already.

    Raises Conflict when it did not pass the gate, or was given up; NotFound when its collection is gone, and then
    it is given up: the live generation and its alias are as they were.
    """
    tenant, number = job.generation.tenant, job.generation.number
    try:
        return work.swapper.swap(tenant, number, grace, job.runner)
    except NotFound as problem:
        work.building.abort(tenant, number, f"its collection was gone before the swap: {problem.message}")
        raise Conflict(f"generation {number} of {tenant} was given up: its collection is gone") from problem


def give_up_idle(work: ReindexWork, idle: timedelta) -> list[tuple[str, int]]:
    """Give up generations nobody has driven for so long; tenant and number of each. They are dropped by the sweep."""
    given_up = []
    for tenant, number in work.building.idle(idle):
        if work.building.abort(tenant, number, "nobody went on with it", idle):
            given_up.append((tenant, number))
    return given_up


def behind_of(statuses: Sequence[GenerationStatus]) -> dict[int, int]:
    """Entries that wait for each generation of one tenant, or were set aside."""
    return {one.number: one.waiting + one.set_aside for one in statuses}
