"""Aliases against the registry, and registered collections against real ones.

The index is asked first: what the record says after that is at least as new. A swap under way is right by itself.
Nothing is dropped here but collections of generations the record says are dropped; what it does not know is shown.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace

from core.errors import Busy, Conflict, NotFound
from core.index.swap import Swapper
from core.model.drift import Depth, Found, Kind, StoreReport, Verdict
from core.model.generation import Generation, GenerationState
from core.model.names import index_group
from core.ports import VectorIndex
from core.record.database import Database
from core.record.generations import generations

ALIAS = "alias"
COLLECTIONS = "collections"


@dataclass(frozen=True, slots=True)
class Names:
    """Compares the names a tenant has in the index with what the record says. `drop` drops a dropped generation."""

    database: Database
    index: VectorIndex
    swapper: Swapper
    drop: Callable[[str, int], None]

    def alias(self, tenant: str, depth: Depth, *, dry: bool) -> StoreReport:
        """Whether the alias names the live generation's collection; if not, it does afterwards. Raises Transient."""
        report = StoreReport(tenant=tenant, store=ALIAS, depth=depth, verdict=Verdict.CLEAN, dry=dry)
        current = self.index.alias(f"{index_group(tenant)}.live")
        live, swapping = self._live(tenant)
        if live is None or swapping:
            return self._report(report, Verdict.UNSETTLED, "a swap is under way" if swapping else "it never wrote")
        there = live.collection in self.index.collections()
        if current == live.collection or (current is None and not there):
            return report  # with nothing embedded yet there is nothing to name
        found = Found(kind=Kind.ALIAS, found=1, samples=(current or "nothing",))
        if not there:
            return self._drift(report, found, "the live collection is gone: it is recovered first")
        if dry:
            return self._drift(report, found, "dry run")
        try:
            self.index.point_alias(live.alias, live.collection, current)
        except (Conflict, NotFound):
            return self._report(report, Verdict.UNSETTLED, "it was moved meanwhile")
        return self._drift(report, Found(kind=Kind.ALIAS, found=1, repaired=1, samples=found.samples), "")

    def collections(self, tenant: str, depth: Depth, *, dry: bool) -> StoreReport:
        """Collections of the tenant that the record does not know, or says are dropped. Raises Transient."""
        report = StoreReport(tenant=tenant, store=COLLECTIONS, depth=depth, verdict=Verdict.CLEAN, dry=dry)
        prefix = f"{index_group(tenant)}.g"
        there = sorted(name for name in self.index.collections() if name.startswith(prefix))
        with self.database.tenant(tenant) as session:
            known = {one.collection: one for one in generations(session, tenant)}
        strangers = [name for name in there if name not in known]
        dropped = [known[name] for name in there if name in known and known[name].state is GenerationState.DROPPED]
        if not strangers and not dropped:
            return report
        again = 0 if dry else sum(self._dropped(one) for one in dropped)
        names = (*strangers, *(one.collection for one in dropped))
        found = Found(kind=Kind.STRANGER, found=len(names), repaired=again, samples=names[:20])
        why = "nobody knows whose they are: look, and drop them by hand" if strangers else "dry run" if dry else ""
        return self._drift(report, found, why)

    def settle(self, tenant: str, owner: uuid.UUID) -> None:
        """Finish a swap whose owner died: the alias is right again either way. One under way is left alone."""
        try:
            self.swapper.settle(tenant, owner)
        except (Busy, Conflict, NotFound):
            return

    def _live(self, tenant: str) -> tuple[Generation | None, bool]:
        with self.database.tenant(tenant) as session:
            live = [one for one in generations(session, tenant) if one.state is GenerationState.LIVE]
        return (live[0] if live else None), self.swapper.swaps.open(tenant) is not None

    def _dropped(self, generation: Generation) -> bool:
        try:
            self.drop(generation.tenant, generation.number)
        except Conflict:
            return False
        return True

    @staticmethod
    def _report(report: StoreReport, verdict: Verdict, note: str) -> StoreReport:
        return replace(report, verdict=verdict, note=note)

    @staticmethod
    def _drift(report: StoreReport, found: Found, why: str) -> StoreReport:
        return replace(report, verdict=Verdict.DRIFT, findings=(replace(found, why=why if found.left else ""),))
