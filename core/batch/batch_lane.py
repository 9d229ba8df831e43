"""The batch lane: what waits for an embedding goes to the provider as jobs that take hours and cost half.

`plan` and `step` fill and send jobs. The one indexer brings on the way what needs no embedding; of the rest the
texts go into the job, and their entries are held in the outbox until a deadline. `follow` looks at one open job
and, once it has ended, keeps the vectors and frees the entries: the ordinary drain then writes them. Nothing here
holds a worker while the provider works, and whatever dies half-way is found again by the job's name.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import islice

from core.errors import EngineError, LeaseLost, Misconfigured, NotFound, Overloaded, Permanent, Transient
from core.index.batch_results import sorted_out
from core.index.budget import Budget
from core.index.claimed import Outcome
from core.index.indexer import Indexer, entries_of
from core.index.job_file import JobFile
from core.model.batch import BatchJob, JobState, Wanted, job_name
from core.model.generation import Generation, GenerationState
from core.model.outbox import Backlog, Claim
from core.model.space import EmbeddingSpace
from core.model.tokens import estimated_tokens
from core.ports import BatchEmbedder, BatchState
from core.record.batch_jobs import BatchJobs, Held
from core.record.database import Database
from core.record.generations import generations
from core.record.outbox import Outbox

logger = logging.getLogger(__name__)

PIECE = 500  # results kept in one transaction
SWEPT = 10_000  # items dropped in one transaction
KEEP_VECTORS = timedelta(days=3)  # of a job that ended, for entries that still wait to be brought
KEEP_JOBS = timedelta(days=90)
NO_ROOM = "no more tokens may wait in batch jobs for now: by the provider's limit, or the budget"
ENDINGS = {"completed": JobState.INGESTED, "expired": JobState.EXPIRED, "cancelled": JobState.CANCELLED}


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchWork:
    """What the batch lane works with. `claimed` entries are read at a time; held ones wait for `wait` at the most.

    `batches_of` gives the batch API of a space's model, None where it has none, and raises Misconfigured where the
    settings name no such model. `check` is called between claims; what it raises ends the step.
    """

    database: Database
    outbox: Outbox
    jobs: BatchJobs
    indexer: Indexer
    batches_of: Callable[[EmbeddingSpace], BatchEmbedder | None]
    new_id: Callable[[], uuid.UUID]
    wait: timedelta
    claimed: int = 1000
    budget: Budget | None = None
    check: Callable[[], None] = lambda: None


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitting:
    """At most one job for each generation of a tenant, of at most `records` entries.

    With a `generation`: for this one, of what a reindex fed for batch jobs.
    """

    tenant: str
    records: int
    generation: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """What a step put into jobs: `entries` are held for `texts` of about `tokens`, in `jobs` of this tenant.

    `reused` and `brought` entries needed no embedding and were done on the way. `elsewhere`: work of models that
    have no batch jobs waits for the normal lane. `postponed` says why a step ended early; `done`: nothing is left
    that could go into a job now.
    """

    tenant: str
    jobs: tuple[uuid.UUID, ...] = ()
    entries: int = 0
    texts: int = 0
    tokens: int = 0
    reused: int = 0
    brought: int = 0
    set_aside: int = 0
    elsewhere: bool = False
    postponed: str | None = None
    done: bool = False

    def plus(self, outcome: Outcome) -> Submitted:
        """With what was done on the way."""
        brought = outcome.payload_only + outcome.deleted + outcome.unchanged
        return replace(
            self,
            reused=self.reused + outcome.reused + outcome.embedded,
            brought=self.brought + brought,
            set_aside=self.set_aside + len(outcome.set_aside),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Followed:
    """How a job stood when it was looked at, and what came: vectors `kept`, inputs the provider `refused`.

    `postponed` says why nothing could be done with it.
    """

    job: BatchJob
    state: JobState
    kept: int = 0
    refused: int = 0
    postponed: str | None = None


def plan(backlog: Sequence[Backlog], records: int) -> list[Submitting]:
    """One piece for each tenant that has work, of at most `records` entries."""
    if records < 1:
        raise ValueError("a piece holds at least one entry")
    return [Submitting(tenant=one.tenant, records=min(records, one.to_do)) for one in backlog if one.to_do]


def step(work: BatchWork, piece: Submitting) -> Submitted:
    """Fill and send at most one job for each of a tenant's generations. May be killed, and run beside itself.

    Raises Misconfigured: a person has to act; the entries are free again.
    """
    report = Submitted(tenant=piece.tenant, done=True)
    with work.database.tenant(piece.tenant) as session:
        known = [one for one in generations(session, piece.tenant) if one.state is not GenerationState.DROPPED]
    for generation in known:
        if piece.generation not in {None, generation.number}:
            continue
        batches = work.batches_of(generation.space)
        if batches is None:
            report = replace(report, elsewhere=True)
            continue
        fed = piece.generation is not None
        report = _Filling(work, generation, batches, report, fed=fed).job(piece.records)
        if report.postponed:
            break
    return report


def follow(work: BatchWork, job: BatchJob) -> Followed:
    """Look at one open job and do what is due: find it, cancel it, keep its results. May be repeated, and killed.

    Raises Misconfigured when the provider cannot be asked for a reason that a person has to mend.
    """
    taken = work.jobs.take(job, work.new_id())
    if taken is None:
        return Followed(job=job, state=job.state, postponed="somebody else works on it, or it has ended")
    held, job = taken
    try:
        return _Following(work, held, job).on()
    except (Transient, LeaseLost) as problem:
        return Followed(job=job, state=job.state, postponed=problem.message)
    finally:
        _let_go(work, held)


def cancel(work: BatchWork, job: BatchJob) -> bool:
    """Free a job's entries at once and have it cancelled, now or at the next look. False: it has ended already."""
    if not work.jobs.cancel(job.tenant, job.id):
        return False
    try:
        follow(work, replace(job, state=JobState.CANCELLING))
    except EngineError as problem:
        logger.warning("batch job %s is cancelled here, and not yet at the provider: %s", job.id, problem.message)
    return True


def sweep(work: BatchWork, tenant: str) -> int:
    """Drop vectors that were brought, and what else nobody needs of jobs that ended: so many items."""
    return work.jobs.sweep(tenant, KEEP_VECTORS, KEEP_JOBS, SWEPT)


def _let_go(work: BatchWork, held: Held) -> None:
    with suppress(Transient):  # the lease runs out by itself
        work.jobs.free(held)


@dataclass(slots=True)
class _Filling:
    """One job on its way to the provider."""

    work: BatchWork
    generation: Generation
    batches: BatchEmbedder
    report: Submitted
    fed: bool
    held: Held | None = None
    attempted: bool = False

    def job(self, records: int) -> Submitted:
        """Fill one job with what `records` entries need, and send it."""
        try:
            room = self._room()
            if room == 0:
                return replace(self.report, postponed=NO_ROOM, done=False)
            with JobFile(self.batches.limits, room) as file:
                self._fill(file, records)
                if self.held is not None:
                    self._send(self.held, file)
        except (Transient, LeaseLost) as problem:
            self.report = replace(self.report, postponed=problem.message, done=False)
        finally:
            if self.held is not None and not self.attempted:
                self._give_up(self.held)
        return self.report

    def _give_up(self, held: Held) -> None:
        """Nothing was sent, also on Ctrl-C: the entries need not wait for the lease to run out."""
        with suppress(Transient, LeaseLost):
            self.work.jobs.end(held, self.generation.space, JobState.CANCELLED, "nothing was sent", unsent=True)
        self.report = replace(self.report, entries=0)

    def _room(self) -> int | None:
        """Tokens that may be put in a job now; None: as many as it takes."""
        rooms = []
        if self.batches.limits.tokens is not None:
            waiting = self.work.jobs.open_tokens(self.generation.space)
            rooms.append(max(0, self.batches.limits.tokens - waiting))
        if self.work.budget is not None and (left := self.work.budget.left()) is not None:
            rooms.append(left)
        return min(rooms) if rooms else None

    def _fill(self, file: JobFile, records: int) -> None:
        left = records
        while left > 0 and not file.full:
            self.work.check()
            limit = min(self.work.claimed, left)
            claim = self.work.jobs.claim(self.work.new_id(), self.generation, limit, fed=self.fed)
            if not claim.entries:
                return
            left -= len(claim.entries)
            held: frozenset[str] = frozenset()
            try:
                outcome = self.work.indexer.bring(claim, defer=True)
                self.report = self.report.plus(outcome)
                held = self._put(file, claim, outcome.deferred)
            finally:
                rest = [memory_id for memory_id in entries_of(claim) if memory_id not in held]
                self.work.outbox.release(claim, rest, timedelta(0), failed=False)
            if len(held) < sum(len(one.versions) for one in outcome.deferred):
                break  # the job is full, or others hold these
        self.report = replace(self.report, done=False)

    def _put(self, file: JobFile, claim: Claim, deferred: Sequence[Wanted]) -> frozenset[str]:
        """Put what fits in the job; the memories that are held for it."""
        wanted = {self.work.new_id(): one for one in deferred}
        lines = {item: self.batches.line(item.hex, one.text) for item, one in wanted.items()}
        tokens = {item: estimated_tokens(one.text) for item, one in wanted.items()}
        fitting = file.fitting([(line, tokens[item]) for item, line in lines.items()])
        wanted = dict(islice(wanted.items(), fitting))
        if not wanted:
            if deferred and not file.inputs:
                self.report = replace(self.report, postponed=NO_ROOM)
            return frozenset()
        if self.held is None:
            self.held = self.work.jobs.begin(self.generation, self.work.new_id(), self.work.new_id(), self.work.wait)
        put = self.work.jobs.put(self.held, claim, wanted, tokens)
        for item in wanted:
            if item in put.items:
                file.add(lines[item], tokens[item])
        self.report = replace(self.report, entries=self.report.entries + len(put.held))
        return put.held

    def _send(self, held: Held, file: JobFile) -> None:
        work, space = self.work, self.generation.space
        if file.inputs == 0 or work.jobs.keep(held) is JobState.CANCELLING:
            return
        self.attempted = True
        name = job_name(held.id)
        try:
            provider_job = self.batches.submit(name, file.reader(lambda: _renew(work, held)))
        except Overloaded:
            _let_go(work, held)  # refused for sure: it can be looked for at once
            raise
        except (Misconfigured, Permanent) as problem:
            work.jobs.end(held, space, JobState.FAILED, problem.message, unsent=isinstance(problem, Misconfigured))
            if isinstance(problem, Misconfigured):
                raise
            self.report = replace(self.report, postponed=problem.message)
            return
        try:
            state = work.jobs.note(held, provider_job)
        except LeaseLost:
            self.batches.cancel(provider_job)  # another run has freed its entries
            raise
        if work.budget is not None:
            work.budget.spend(file.tokens)
        if state is JobState.CANCELLING:
            self.batches.cancel(provider_job)
        _let_go(work, held)
        self.report = replace(
            self.report,
            jobs=(*self.report.jobs, held.id),
            texts=self.report.texts + file.inputs,
            tokens=self.report.tokens + file.tokens,
        )


def _renew(work: BatchWork, held: Held) -> None:
    work.jobs.keep(held)


@dataclass(slots=True)
class _Following:
    """One open job under our lease."""

    work: BatchWork
    held: Held
    job: BatchJob
    note: str | None = None
    kept: int = 0
    refused: int = 0
    space: EmbeddingSpace = field(init=False)

    def on(self) -> Followed:
        """Do what is due."""
        with self.work.database.tenant(self.job.tenant) as session:
            found = [one for one in generations(session, self.job.tenant) if one.number == self.job.generation]
        self.space = found[0].space
        try:
            batches = self.work.batches_of(self.space)
            if batches is None:
                raise Misconfigured(f"{self.space.provider} is no longer known to have batch jobs")
            return self._asked(batches)
        except (Misconfigured, NotFound) as problem:
            if self.job.overdue:
                return self._end(JobState.FAILED, problem.message)
            if isinstance(problem, NotFound):
                return self._still(problem.message)
            raise

    def _asked(self, batches: BatchEmbedder) -> Followed:
        name = self.job.provider_job
        if name is None:
            name = batches.found(self.job.name, self.job.created_at)
            if name is None:
                cancelled = self.job.state is JobState.CANCELLING
                state = JobState.CANCELLED if cancelled else JobState.FAILED
                return self._end(state, "it was never sent", unsent=True)
            self.work.jobs.note(self.held, name)
        told = batches.poll(name)
        if told.phase == "running":
            return self._running(batches, name, told)
        if told.phase == "failed":
            self._discard(batches, told)
            return self._end(JobState.FAILED, f"the provider refused the job ({told.reason or 'it does not say why'})")
        self._ingest(batches, told)
        followed = self._end(ENDINGS[told.phase], self.note)
        self._discard(batches, told)
        return followed

    def _running(self, batches: BatchEmbedder, name: str, told: BatchState) -> Followed:
        if self.job.overdue and self.job.state is not JobState.CANCELLING:
            # Its entries go the normal way from here on: what it has not done yet would be paid for twice.
            self.work.jobs.cancel(self.job.tenant, self.job.id)
        state = self.work.jobs.note(self.held, name, polled=True, done=told.done)
        if state is JobState.CANCELLING:
            batches.cancel(name)
        return Followed(job=self.job, state=state)

    def _ingest(self, batches: BatchEmbedder, told: BatchState) -> None:
        """Keep what came, in pieces; each can be kept again without any effect."""
        results = batches.results(told)
        try:
            while piece := list(islice(results, PIECE)):
                self.work.check()
                found = sorted_out(piece)
                self.kept += self.work.jobs.ingest(self.held, self.space, found)
                self.refused += len(found.refused)
        except NotFound as problem:
            self.note = problem.message

    def _discard(self, batches: BatchEmbedder, told: BatchState) -> None:
        try:
            batches.discard(told)
        except EngineError as problem:
            logger.warning("files of batch job %s stay at the provider: %s", self.job.id, problem.message)

    def _end(self, state: JobState, note: str | None, *, unsent: bool = False) -> Followed:
        self.work.jobs.end(self.held, self.space, state, note, unsent=unsent)
        return Followed(job=self.job, state=state, kept=self.kept, refused=self.refused)

    def _still(self, why: str) -> Followed:
        return Followed(job=self.job, state=self.job.state, postponed=why)
