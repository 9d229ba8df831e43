"""What keeps the stores in step beside the engine's daily work: looking for drift, coverage and lag."""

from __future__ import annotations

import random
import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from core.batch.reconcile import ReconcileWork, Report, StoreCheck, plan, step
from core.batch.relay import RelayWork
from core.index.drift_archive import ArchivedObjects
from core.index.drift_cache import CachedValues
from core.index.drift_names import Names
from core.index.removal import Remover
from core.index.swap import Swapper
from core.model.coverage import Coverage, LeasedRun
from core.model.drift import Depth, DriftRules, Look, StoreReport
from core.model.event import EventLag
from core.ports import BlobStore, Cache, EventStream, Locks, VectorIndex
from core.record import drift
from core.record.contents import cache_key
from core.record.database import Database
from core.record.relay import Relay
from core.settings import Settings

MOST_TENANTS = 100_000


@dataclass(frozen=True, slots=True)
class Upkeep:
    """Looks at the stores of any tenant. Thread-safe. `cache` None: none is used, and none is compared."""

    settings: Settings
    database: Database
    index: VectorIndex
    locks: Locks
    swapper: Swapper
    remover: Remover
    blobs: BlobStore
    cache: Cache | None
    events: EventStream | None = None

    def work(self) -> ReconcileWork:
        """What the reconcile chore works with."""
        settings = self.settings
        rules = DriftRules(
            minimum_age=settings.reconcile_minimum_age,
            cap=settings.reconcile_cap,
            removals=settings.reconcile_removals,
            removed_share=settings.reconcile_removed_share,
            sample=settings.reconcile_sample,
            pause=settings.reconcile_digests_every,
            keep=settings.reconcile_keep,
        )
        chance = random.Random()  # noqa: S311  which points are looked at is no secret
        checks: dict[str, StoreCheck] = {"archive": ArchivedObjects(self.database, self.blobs, rules, chance)}
        if self.cache is not None:
            checks["cache"] = CachedValues(self.database, self.cache, rules, chance, cache_key)
        return ReconcileWork(
            database=self.database,
            index=self.index,
            names=Names(self.database, self.index, self.swapper, self.remover.drop),
            locks=self.locks,
            rules=rules,
            chance=chance,
            checks=checks,
            new_id=uuid.uuid4,
            keep=settings.lease,
        )

    def plan(self, tenants: Sequence[str] | None = None) -> list[Look]:
        """The pieces of a run over the tenants (all, or those named), those looked at longest ago first."""
        found = drift.tenants_to_look_at(self.database, tenants, MOST_TENANTS)
        return plan(found, self.settings.reconcile_portion)

    def glance(self, tenants: Sequence[str] | None = None) -> list[Report]:
        """The cheap look at every tenant: names and numbers, and a closer one where they disagree.

        Raises Transient when the record is out of reach.
        """
        work = self.work()
        return [step(work, look, Depth.COUNTS) for look in self.plan(tenants) if look.names]

    def relay_work(self) -> RelayWork:
        """What the relay chore works with."""
        return RelayWork(
            database=self.database,
            stream=self.events,
            locks=self.locks,
            new_id=uuid.uuid4,
            keep=self.settings.lease,
        )

    def event_lag(self, tenants: Sequence[str] | None = None) -> Sequence[EventLag]:
        """Events of the tenants (all, or those named) that their streams were not given yet."""
        return Relay(self.database).lag(tenants)

    def reports(self, tenants: Sequence[str] | None = None, limit: int = 20) -> Sequence[StoreReport]:
        """What the last looks at each tenant found, newest first."""
        return drift.reports(self.database, tenants, limit)

    def coverage(self, tenants: Sequence[str] | None = None) -> Sequence[Coverage]:
        """Coverage and lag of every store of the tenants (all, or those named)."""
        return drift.coverage(self.database, tenants)

    def runs(self, tenants: Sequence[str] | None = None) -> Sequence[LeasedRun]:
        """Who holds work of the tenants (all, or those named) under a lease, and whose lease has run out."""
        return drift.runs(self.database, tenants)
