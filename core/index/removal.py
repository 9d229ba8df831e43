"""Dropping generations: by collection name, never one that serves, and not while anybody writes to it or names it."""

from __future__ import annotations

from dataclasses import dataclass

from core.errors import Busy, Conflict, NotFound
from core.model.generation import Generation, GenerationState
from core.ports import VectorIndex
from core.record.building import statuses
from core.record.database import Database
from core.record.removals import DROPPABLE, Removals


@dataclass(frozen=True, slots=True)
class Remover:
    """Drops generations that retire or were given up."""

    database: Database
    index: VectorIndex
    removals: Removals

    def drop(self, tenant: str, number: int) -> None:
        """Drop one generation now. Killed anywhere, it is dropped by the next call.

        Raises NotFound; Conflict for one that serves, is being built or swapped, and while an alias, ours or a
        stranger's, names its collection (then it stays as it was); Busy while a worker may still be writing to it.
        """
        generation = self.removals.named(tenant, number)
        if generation is None:
            raise NotFound(f"there is no generation {number} of {tenant}")
        if generation.state is GenerationState.DROPPED:
            self.index.drop(generation.collection)
            return
        if generation.state not in DROPPABLE:
            raise Conflict(f"generation {number} of {tenant} is {generation.state}: it is not dropped")
        self._drop(generation)

    def sweep(self) -> dict[str, str]:
        """Drop all whose time has come, and collections of dropped ones that a late worker made again.

        What could not be dropped, by collection, with the reason.
        """
        left: dict[str, str] = {}
        for generation in self.removals.due():
            try:
                self._drop(generation)
            except (Conflict, Busy) as problem:
                left[generation.collection] = problem.message
        there = self.index.collections()
        for one in statuses(self.database, None, dropped=True):
            if one.state is GenerationState.DROPPED:
                generation = self._named(one.tenant, one.number)
                if one.waiting or one.set_aside:
                    self.removals.forget(generation)
                if generation.collection in there:
                    self.index.drop(generation.collection)
        return left

    def _drop(self, generation: Generation) -> None:
        self.removals.begin(generation)
        if leased := self.removals.leased(generation):
            raise Busy(f"{leased} entries of generation {generation.number} of {generation.tenant} are under way")
        try:
            self.index.drop(generation.collection)
        except Conflict:
            self.removals.undo(generation)
            raise
        self.removals.end(generation)

    def _named(self, tenant: str, number: int) -> Generation:
        generation = self.removals.named(tenant, number)
        assert generation is not None  # noqa: S101  rows of generations are never deleted
        return generation
