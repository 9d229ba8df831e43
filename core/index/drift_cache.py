"""The hot cache against the record: a value made from a version the record is not at is dropped.

Readers compare versions themselves, so that a wrong value is never served; this finds what should not be there. A
cache answers nothing when it is out of reach: it is asked first for a value just put.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from core.model.drift import SAMPLES, Depth, DriftRules, Found, Kind, Span, StoreReport, Verdict
from core.ports import Cache
from core.record import drift
from core.record.database import Database

CACHE = "cache"
PROBE = "drift:probe"
DEEPER = 20
KEEP = timedelta(seconds=10)
LAST = uuid.UUID(int=(1 << 128) - 1)


@dataclass(frozen=True, slots=True)
class CachedValues:
    """Looks at the cached values of some of a tenant's memories. `key_of` names them, by the point's id in hex."""

    database: Database
    cache: Cache
    rules: DriftRules
    chance: random.Random
    key_of: Callable[[str], str]

    def look(self, tenant: str, depth: Depth, *, dry: bool) -> StoreReport:
        """A sample, twenty times as many in a full look."""
        report = StoreReport(tenant=tenant, store=CACHE, depth=depth, verdict=Verdict.CLEAN, dry=dry)
        self.cache.put(PROBE, b"1", KEEP)
        if self.cache.get(PROBE) is None:
            return StoreReport(
                tenant=tenant, store=CACHE, depth=depth, verdict=Verdict.SKIPPED, note="unreachable, or not used"
            )
        most = self.rules.sample * (DEEPER if depth is Depth.FULL else 1)
        start = Span(uuid.UUID(int=self.chance.getrandbits(128) if depth is not Depth.FULL else 0), LAST)
        points = [uuid.UUID(bytes=point) for point, _ in drift.page(self.database, tenant, start, most)]
        held = {point: kept for point in points if (kept := self.cache.get_versioned(self.key_of(point.hex)))}
        # The record last: a value put in meanwhile is of a version it knows.
        now = drift.standings(self.database, tenant, 0, list(held), self.rules.minimum_age) if held else {}
        wrong = {
            point: kept.version
            for point, kept in held.items()
            if now[point].settled and now[point].version != kept.version
        }
        if not wrong:
            return report
        if not dry:
            for point, version in wrong.items():
                self.cache.drop_older(self.key_of(point.hex), version, KEEP)
        found = Found(
            kind=Kind.CACHED,
            found=len(wrong),
            repaired=0 if dry else len(wrong),
            why="dry run" if dry else "",
            samples=tuple(now[point].memory_id or str(point) for point in list(wrong)[:SAMPLES]),
        )
        return StoreReport(
            tenant=tenant, store=CACHE, depth=depth, verdict=Verdict.DRIFT, findings=(found,), dry=dry, points=len(held)
        )
