"""The reconcile chore: every store against the record, and what differs back in step.

`plan` cuts tenants into pieces of bounded size, `step` looks at one piece: by numbers, by digests of stretches of
ids, or at every point; only stretches that disagree are walked. What is wrong goes to the outbox or the queue of
orphans, which `remove` works off; a collection that is gone or mostly gone is for the recover chore. Killed anywhere,
run twice or by two at once, it ends in the same state: nothing it does is more than asking for work to be done again.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Protocol

from core.errors import Busy, LeaseLost, Transient
from core.index.drift import Comparison
from core.index.drift_names import ALIAS, COLLECTIONS, Names
from core.index.generation_drift import GenerationDrift
from core.index.orphans import OrphanDrain, Removed
from core.model.coverage import INDEX
from core.model.drift import Depth, DriftRules, Look, StoreReport, Verdict, looks_of, merged
from core.model.generation import Generation, GenerationState
from core.ports import Locks, VectorIndex
from core.record import drift
from core.record.database import Database
from core.record.fences import LockName, fenced
from core.record.kept import generations_kept
from core.record.orphans import Orphans

WORK = "reconcile"
NOT_COMPARED = (GenerationState.DROPPED, GenerationState.ABORTED)


class StoreCheck(Protocol):
    """One more store to look at: of a tenant, as deep as asked, changing nothing where `dry`. Raises Transient."""

    def look(self, tenant: str, depth: Depth, *, dry: bool) -> StoreReport:
        """What it found and did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconcileWork:
    """What a step works with. `checks` are further stores by name; `keep` is how long its lock lasts unrenewed."""

    database: Database
    index: VectorIndex
    names: Names
    locks: Locks
    rules: DriftRules
    chance: random.Random
    new_id: Callable[[], uuid.UUID]
    keep: timedelta
    checks: dict[str, StoreCheck] = field(default_factory=dict)
    check: Callable[[], None] = lambda: None


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What one step found and did, store by store. `skipped` says why nothing was looked at."""

    tenant: str
    stores: tuple[StoreReport, ...] = ()
    skipped: str | None = None

    @property
    def recover(self) -> bool:
        """Whether the live index is for the recover chore."""
        return any(one.recover for one in self.stores)

    @property
    def queued(self) -> bool:
        """Whether points wait in the queue of orphans, or index work was asked for."""
        return any(found.repaired for one in self.stores for found in one.findings)


def plan(tenants: Iterable[tuple[str, int]], most: int) -> list[Look]:
    """Tenants, with their numbers of records, in pieces of about `most` records."""
    return looks_of(tenants, most)


def step(work: ReconcileWork, look: Look, depth: Depth, *, dry: bool = False) -> Report:
    """Look at one piece and have what is wrong put right. Raises Transient when the record is out of reach.

    Any other store out of reach is `skipped`, which is not clean. A piece that is looked at elsewhere is left to it.
    """
    work_name = WORK if look.whole else f"{WORK}-{look.first}"
    try:
        with fenced(
            work.database, work.locks, LockName(tenant=look.tenant, work=work_name), work.new_id().hex, work.keep
        ) as held:

            def alive() -> None:
                work.check()
                held.renew()

            found = tuple(_stores(work, look, depth, alive, dry=dry))
    except LeaseLost:
        return Report(tenant=look.tenant, skipped="it is being looked at elsewhere")
    except Busy as problem:
        if problem.details.get("work") != work_name:
            raise
        return Report(tenant=look.tenant, skipped="it is being looked at elsewhere")
    if not dry:
        for one in found:
            drift.keep(work.database, one, work.new_id(), work.rules.keep)
    return Report(tenant=look.tenant, stores=found)


def remove(work: ReconcileWork, tenant: str, limit: int) -> Removed:
    """Take up to `limit` points out of the tenant's indexes that were found wrong the minimum age ago.

    Raises Transient.
    """
    waiting = Orphans(work.database).waiting(tenant)
    done = [
        OrphanDrain(work.database, work.index, one).drain(work.rules.minimum_age, limit)
        for one in generations_kept(work.database, tenant)
        if one.number in waiting
    ]
    return Removed(sum(one.removed for one in done), sum(one.spared for one in done), sum(one.waiting for one in done))


def _stores(
    work: ReconcileWork, look: Look, depth: Depth, alive: Callable[[], None], *, dry: bool
) -> Iterator[StoreReport]:
    tenant = look.tenant
    if look.names:
        drift.fold(work.database, tenant)
        for store, ask in _named_checks(work, depth).items():
            alive()
            yield _reached(lambda ask=ask: ask(tenant, depth, dry=dry), tenant, store, 0, depth)  # type: ignore[misc]
    for generation in generations_kept(work.database, tenant):
        if generation.state not in NOT_COMPARED:
            alive()
            one = _of(work, generation, alive)
            yield _reached(
                lambda one=one: one.look(look, depth, dry=dry),  # type: ignore[misc]
                tenant,
                INDEX,
                generation.number,
                depth,
            )


def _named_checks(work: ReconcileWork, depth: Depth) -> dict[str, Callable[..., StoreReport]]:
    def alias(tenant: str, depth: Depth, *, dry: bool) -> StoreReport:
        if not dry:
            work.names.settle(tenant, work.new_id())
        return work.names.alias(tenant, depth, dry=dry)

    # They read values and objects one by one: too much for a look at numbers every few seconds.
    others = {} if depth is Depth.COUNTS else {name: check.look for name, check in work.checks.items()}
    return {ALIAS: alias, COLLECTIONS: work.names.collections, **others}


def _of(work: ReconcileWork, generation: Generation, alive: Callable[[], None]) -> GenerationDrift:
    return GenerationDrift(
        Comparison(work.database, work.index, generation, work.rules, alive), Orphans(work.database), work.chance
    )


def _reached(ask: Callable[[], StoreReport], tenant: str, store: str, generation: int, depth: Depth) -> StoreReport:
    """What a store's check says; where the store is out of reach, that, and no verdict."""
    try:
        return ask()
    except LeaseLost:
        raise
    except Transient as problem:
        return StoreReport(
            tenant=tenant,
            store=store,
            generation=generation,
            depth=depth,
            verdict=Verdict.SKIPPED,
            note=f"unreachable: {problem.message}",
        )


def total(reports: Sequence[Report]) -> list[StoreReport]:
    """The reports of all pieces as one for each tenant, store and generation."""
    stores = [one for report in reports for one in report.stores]
    skipped = [
        StoreReport(tenant=one.tenant, store=INDEX, depth=Depth.COUNTS, verdict=Verdict.SKIPPED, note=one.skipped)
        for one in reports
        if one.skipped
    ]
    return merged([*stores, *skipped])
