"""How much of the record each index holds, what waits, when stores were last compared, and who is at work."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby

INDEX = "index"
LIVE = "live"


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """One store of a tenant: what it should hold, what of that waits, and how it was when last looked at.

    Each index is a store of its own, with its `generation`; for other stores that is 0, and `state` and `records` are
    None. `waited` is the age of the oldest that waits, in seconds by the database. `points` is None until it was
    counted. `clean_at`: all of it was compared and agreed; None: never.
    """

    tenant: str
    store: str
    generation: int
    state: str | None
    records: int | None
    waiting: int
    set_aside: int
    oldest_waiting: datetime | None
    waited: float | None
    points: int | None
    looked_at: datetime | None
    verdict: str | None
    counted_at: datetime | None
    clean_at: datetime | None
    found_at: datetime | None
    orphans: int


@dataclass(slots=True, kw_only=True)
class TenantCoverage:
    """The stores of one tenant, or of several, together: `points` by generation, of what was counted.

    `clean_at` and `found_at` by store, of the index that serves where there are several; None: never.
    """

    tenant: str
    records: int = 0
    waiting: int = 0
    set_aside: int = 0
    waited: float = 0.0
    points: dict[int, int] = field(default_factory=dict)
    clean_at: dict[str, datetime | None] = field(default_factory=dict)
    found_at: dict[str, datetime | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeasedRun:
    """Work that somebody holds under a lease: `left` seconds of it; below 0 the holder is dead, for so long.

    `entries` is how much is held, `begun` when the work was taken up first; None where that is not noted.
    """

    tenant: str
    chore: str
    generation: int
    holder: uuid.UUID | None
    entries: int | None
    begun: datetime | None
    left: float

    @property
    def dead(self) -> bool:
        """Whether its lease has run out: the work is anybody's now."""
        return self.left <= 0


def by_tenant(stores: Iterable[Coverage]) -> list[TenantCoverage]:
    """Stores, in the order of their tenants, summed up for each; those with most work first."""
    found = [_of_one(tenant, of_it) for tenant, of_it in groupby(stores, key=lambda one: one.tenant)]
    return sorted(found, key=lambda one: (-one.waiting, -one.set_aside, one.tenant))


def together(name: str, tenants: Sequence[TenantCoverage]) -> TenantCoverage:
    """Several tenants as one, without their points by generation. Of moments the worst: never clean, last found."""
    found = TenantCoverage(tenant=name)
    for one in tenants:
        found.records += one.records
        found.waiting += one.waiting
        found.set_aside += one.set_aside
        found.waited = max(found.waited, one.waited)
        for store, clean in one.clean_at.items():
            before = found.clean_at.get(store, clean)
            found.clean_at[store] = None if clean is None or before is None else min(before, clean)
        for store, at in one.found_at.items():
            found.found_at[store] = max(filter(None, (found.found_at.get(store), at)), default=None)
    return found


def _of_one(tenant: str, stores: Iterable[Coverage]) -> TenantCoverage:
    found = TenantCoverage(tenant=tenant)
    for one in stores:
        found.records = max(found.records, one.records or 0)
        found.waiting += one.waiting
        found.set_aside += one.set_aside
        found.waited = max(found.waited, one.waited or 0.0)
        if one.store == INDEX and one.points is not None:
            found.points[one.generation] = one.points
        if one.store != INDEX or one.state == LIVE:
            found.clean_at[one.store] = one.clean_at
            found.found_at[one.store] = one.found_at
    return found
