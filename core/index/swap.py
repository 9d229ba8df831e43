"""The swap: intent, compare-and-set of the alias, result (DESIGN.md section 6).

PostgreSQL says which generation is live; the alias follows for everybody else who reads the index. A run that
dies leaves an open intent, and the next one finishes it: the alias names the old collection or already the
new one, and both are written to, so that going forward is right either way.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import timedelta

from core.errors import Busy, Conflict, NotFound
from core.model.generation import Generation, GenerationState
from core.model.reindex import SwapOutcome
from core.ports import VectorIndex
from core.record.database import Database
from core.record.generations import generations
from core.record.swaps import Intent, Swaps


@dataclass(frozen=True, slots=True)
class Swapper:
    """Makes another generation of a tenant the live one."""

    database: Database
    index: VectorIndex
    swaps: Swaps

    def swap(self, tenant: str, number: int, grace: timedelta, owner: uuid.UUID) -> SwapOutcome:
        """Make generation `number` live; the one that was retires and is kept, written to, for `grace`.

        An intent that another run left open is finished first. Raises Busy while a swap is under way; Conflict
        when the generation is not ready or the alias was moved by another hand; NotFound when its collection
        is gone. Then the live generation and its alias are as they were.
        """
        self.settle(tenant, owner)
        known = {one.number: one for one in self._generations(tenant)}
        live = next((one for one in known.values() if one.state is GenerationState.LIVE), None)
        if number not in known or live is None:
            raise Conflict(f"there is no generation {number} of {tenant}")
        if live.number == number:
            return SwapOutcome.ALREADY
        self._carry_out(self.swaps.begin(live, known[number], grace, owner), owner)
        return SwapOutcome.SWAPPED

    def settle(self, tenant: str, owner: uuid.UUID) -> None:
        """Finish what a run that died left open. Raises Busy while its lease runs."""
        intent = self.swaps.open(tenant)
        if intent is None:
            return
        if intent.held or not self.swaps.take_over(intent, owner):
            raise Busy(f"a swap of {tenant} is under way")
        self._carry_out(intent, owner)

    def rollback(self, tenant: str, grace: timedelta, owner: uuid.UUID, behind: dict[int, int], *, force: bool) -> int:
        """Make the generation that served before the live one again; its number.

        `behind`: entries that wait for each generation, or were set aside. Raises NotFound when none is kept;
        Conflict when it is behind the record, unless `force`.
        """
        self.settle(tenant, owner)
        kept = [one for one in self._generations(tenant) if one.state is GenerationState.RETIRING]
        if not kept:
            raise NotFound(f"no earlier generation of {tenant} is kept")
        target = kept[-1].number
        if behind.get(target, 0) > 0 and not force:
            raise Conflict(
                f"generation {target} of {tenant} is {behind[target]} entries behind the record: run the embed chore "
                "first, or take it as it is with --force",
                behind=behind[target],
            )
        self.swap(tenant, target, grace, owner)
        return target

    def _carry_out(self, intent: Intent, owner: uuid.UUID) -> None:
        try:
            self._point(intent)
        except (Conflict, NotFound):
            # A refusal: nothing was moved. Any other failure leaves the intent open, for nobody knows.
            self.swaps.give_up(intent, owner)
            raise
        self.swaps.complete(intent, owner)

    def _point(self, intent: Intent) -> None:
        alias, old, new = intent.new.alias, intent.old.collection, intent.new.collection
        try:
            self.index.point_alias(alias, new, old)
        except Conflict as problem:
            if problem.details.get("current") is not None:
                raise
            # It names nothing, as after a restore of the index: there is nothing to compare with.
            self.index.point_alias(alias, new, None)

    def _generations(self, tenant: str) -> list[Generation]:
        with self.database.tenant(tenant) as session:
            return generations(session, tenant)
