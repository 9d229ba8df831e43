"""The embed chore: drain the outbox into the indexes, in bounded portions.

`plan` cuts the backlog into portions, tenants in turn; `step` does one portion and says what came of it.
Inside a portion several batches are under way at once, each under a lease of its own, so that claiming,
embedding and upserting overlap; nothing is shared between them but the count of what is left to do.
"""

from __future__ import annotations

import logging
import random
import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import zip_longest

from core.errors import BadAnswer, EngineError, NotFound, Overloaded, Transient
from core.index.budget import Budget
from core.index.claimed import Outcome
from core.index.indexer import Indexer, entries_of
from core.index.patience import Patience
from core.model.logged import about
from core.model.outbox import Backlog, Claim
from core.ports import BulkLoads
from core.record.outbox import Outbox

logger = logging.getLogger(__name__)

SAMPLE = 20
# Entries that wait together, from which a load counts as bulk: more than an index builds in passing.
BULK = 20_000
# Portions of one pack: each is a request at least, which a slow provider takes seconds for.
PACKED = 50
# How long a step waits at a time, and in all its threads together, for providers that cool down.
COOLING_SECONDS = 0.5
LONGEST_COOLING = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Portion:
    """One bounded piece of work: at most `records` entries of one tenant.

    `bulk`: it is part of a load of many times what is usual. `last`: none is planned after it.
    """

    tenant: str
    records: int
    bulk: bool = False
    last: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What one or several steps did for a tenant. `set_aside` shows at most 20 ids with their reasons.

    `batched` entries are held for batch jobs. `postponed` says why a step ended early although there is work: it
    goes on by itself later.
    """

    tenant: str
    embedded: int = 0
    batched: int = 0
    reused: int = 0
    truncated: int = 0
    payload_only: int = 0
    deleted: int = 0
    unchanged: int = 0
    requeued: int = 0
    lost: int = 0
    set_aside_count: int = 0
    set_aside: dict[str, str] = field(default_factory=dict)
    postponed: str | None = None
    done: bool = False

    @property
    def worked(self) -> int:
        """Entries brought to an end."""
        return self.embedded + self.reused + self.payload_only + self.deleted + self.unchanged

    def plus(self, other: Report | Outcome) -> Report:
        """This report with the figures of another, or of one more batch, added."""
        names = ("embedded", "reused", "truncated", "payload_only", "deleted", "unchanged", "requeued", "lost")
        sums = {name: getattr(self, name) + getattr(other, name) for name in names}
        count = other.set_aside_count if isinstance(other, Report) else len(other.set_aside)
        shown = dict(list({**self.set_aside, **other.set_aside}.items())[:SAMPLE])
        batched = self.batched + (other.batched if isinstance(other, Report) else 0)
        return replace(self, **sums, batched=batched, set_aside_count=self.set_aside_count + count, set_aside=shown)


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedWork:
    """What a step works with. `batch` entries are claimed at a time, by `workers` threads.

    `check` is called between batches; what it raises ends the step once the batches under way are done. `cooling`
    names the spaces (fingerprints) whose provider cools down: their work is left out until that is over.
    """

    outbox: Outbox
    indexer: Indexer
    new_id: Callable[[], uuid.UUID]
    batch: int = 500
    workers: int = 2
    retry_wait: timedelta = timedelta(seconds=2)
    loads: BulkLoads | None = None
    budget: Budget | None = None
    check: Callable[[], None] = lambda: None
    cooling: Callable[[], Collection[str]] = frozenset
    clock: Callable[[], float] = time.monotonic
    chance: Callable[[], float] = random.random


def plan(backlog: Sequence[Backlog], portion: int) -> list[Portion]:
    """Portions of at most `portion` entries that together cover the backlog; tenants take turns."""
    if portion < 1:
        raise ValueError("a portion holds at least one entry")
    queues = [
        [
            Portion(
                tenant=one.tenant,
                records=min(portion, one.to_do - start),
                bulk=one.to_do >= BULK,
                last=start + portion >= one.to_do,
            )
            for start in range(0, one.to_do, portion)
        ]
        for one in backlog
    ]
    return [turn for turns in zip_longest(*queues) for turn in turns if turn is not None]


def packed(portions: Sequence[Portion], least: int) -> list[tuple[Portion, ...]]:
    """The portions in their order, small ones of several tenants together in packs.

    A pack is of at most `least` entries and PACKED portions; a portion as large as that stands alone. Without packs ten
    thousand tenants with a few records each were as many tasks.
    """
    packs: list[tuple[Portion, ...]] = []
    room = 0
    for portion in portions:
        if portion.records <= room and len(packs[-1]) < PACKED:
            packs[-1] += (portion,)
            room -= portion.records
        else:
            packs.append((portion,))
            room = max(0, least - portion.records)
    return packs


def step(work: EmbedWork, portion: Portion) -> Report:
    """Do one portion. Killed anywhere, or run beside others, it leaves nothing half-done: leases run out.

    A store or provider that is out of reach ends the step early with `postponed`; the entries stay in
    the outbox. Raises Misconfigured: a person has to act, and nothing is set aside.
    """
    run = _Run(work, portion)
    with ThreadPoolExecutor(work.workers, thread_name_prefix="embed") as pool:
        runs = [pool.submit(run.work_through) for _ in range(work.workers)]
        try:
            for one in runs:
                one.result()
        finally:
            # Also on Ctrl-C: the batches under way are finished, none is started.
            run.stop.set()
    run.end_load()
    return run.report


def total(tenant: str, reports: Iterable[Report]) -> Report:
    """The reports of one tenant as one; done when the last one was."""
    summed = Report(tenant=tenant)
    for report in reports:
        summed = replace(summed.plus(report), postponed=report.postponed, done=report.done)
    return summed


class _Run:
    """One step under way: what its threads share."""

    def __init__(self, work: EmbedWork, portion: Portion) -> None:
        self.report = Report(tenant=portion.tenant)
        self.stop = threading.Event()
        self._work = work
        self._portion = portion
        self._left = portion.records
        self._cooled = 0.0
        self._collections: set[str] = set()
        self._patience = Patience(work.clock, work.chance)
        self._lock = threading.Lock()

    def work_through(self) -> None:
        """Claim and bring batches until the portion or the work is used up."""
        try:
            while not self.stop.is_set():
                if not self._go_on():
                    return
                without = self._work.cooling()
                claim = self._claim(without)
                if claim is None and without and self._waits_for_a_provider():
                    continue
                if claim is None:
                    return
                with about(tenant=claim.generation.tenant, generation=claim.generation.number, batch=str(claim.owner)):
                    self._bring(claim)
                self._begin_load(claim.generation.collection)
        except BaseException:
            self.stop.set()
            raise

    def _go_on(self) -> bool:
        """Wait if the provider asked for less. False: the run is interrupted, and what is left waits for the next."""
        try:
            self._patience.wait(self.stop, self._work.check)
        except Transient as problem:
            self._postpone(problem)
        return not self.stop.is_set()

    def _waits_for_a_provider(self) -> bool:
        """Nothing can be claimed while a provider cools down. True: a little was waited, ask again."""
        if self.stop.is_set() or not self._has_work():
            return False
        with self._lock:
            self._cooled += COOLING_SECONDS
            if self._cooled > LONGEST_COOLING:
                self.report = replace(self.report, postponed="the provider asks for less", done=False)
                return False
            self.report = replace(self.report, done=False)
        self.stop.wait(COOLING_SECONDS)
        return True

    def _has_work(self) -> bool:
        with self._lock:
            if self._left < 1:
                return False
        try:
            return any(one.to_do for one in self._work.outbox.backlog([self.report.tenant]))
        except Transient as problem:
            self._postpone(problem)
            return False

    def end_load(self) -> None:
        """After the last portion, also of a run that was no bulk load: one that was killed may have begun it."""
        if self._work.loads is None or not self._portion.last:
            return
        try:
            for collection in sorted(self._collections):
                self._work.loads.end_bulk(collection)
        except (Transient, NotFound) as problem:
            self._postpone(problem)

    def _begin_load(self, collection: str) -> None:
        with self._lock:
            new = collection not in self._collections
            self._collections.add(collection)
        if new and self._portion.bulk and self._work.loads is not None:
            try:
                self._work.loads.begin_bulk(collection)
            except (Transient, NotFound) as problem:
                self._postpone(problem)

    def _claim(self, without: Collection[str]) -> Claim | None:
        with self._lock:
            wanted = min(self._work.batch, self._left)
            self._left -= wanted
        if wanted < 1:
            return None
        try:
            if self._work.budget is not None and (reason := self._work.budget.used_up()) is not None:
                raise Overloaded(reason)
            claim = self._work.outbox.claim(self._work.new_id(), wanted, [self.report.tenant], list(without))
        except Transient as problem:
            self._postpone(problem)
            return None
        with self._lock:
            self._left += wanted - (0 if claim is None else len(claim.entries))
            if claim is None:
                self.report = replace(self.report, done=True)
        return claim if claim is not None and claim.entries else None

    def _bring(self, claim: Claim) -> None:
        ended = False
        try:
            outcome = self._work.indexer.bring(claim)
            ended = True
        except Transient as problem:
            self._give_back(claim, entries_of(claim), failed=True)
            ended = True
            self._postpone(problem)
            return
        finally:
            if not ended:
                self._give_back(claim, entries_of(claim), failed=False)
        logger.debug("batch of %d: %d embedded, %d reused", len(claim.entries), outcome.embedded, outcome.reused)
        with self._lock:
            self.report = self.report.plus(outcome)
        if self._work.budget is not None:
            self._work.budget.spend(outcome.tokens)
        if outcome.requests > 0 and outcome.problem is None:
            self._patience.eased()
        if outcome.problem is not None:
            self._end_for(outcome.problem, claim, outcome.left)

    def _end_for(self, problem: EngineError, claim: Claim, left: list[str]) -> None:
        """A provider's failure: its entries go back. Overload is waited for, a person's business is raised."""
        if isinstance(problem, Overloaded) and self._patience.asked_for_less(problem.retry_after):
            self._give_back(claim, left, failed=False)
            return
        theirs = isinstance(problem, Transient | BadAnswer)
        self._give_back(claim, left, failed=theirs)
        if not theirs:
            raise problem
        self._postpone(problem)

    def _give_back(self, claim: Claim, ids: list[str], *, failed: bool) -> None:
        wait = self._work.retry_wait if failed else timedelta(0)
        # With PostgreSQL out of reach too, the lease running out does the same a little later.
        with suppress(Transient):
            self._work.outbox.release(claim, ids, wait, failed=failed)

    def _postpone(self, problem: EngineError) -> None:
        self.stop.set()
        with self._lock:
            self.report = replace(self.report, postponed=problem.message)
