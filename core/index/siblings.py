"""Vectors other generations of the tenant hold, built with the same embedding space."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from core.errors import NotFound
from core.model.generation import Generation, GenerationState
from core.model.point import Vector
from core.ports import VectorIndex
from core.record.database import Database
from core.record.generations import generations


@dataclass(frozen=True, slots=True)
class SiblingVectors:
    """A `KnownVectors`: a model that is taken up again finds what its last generation still holds."""

    database: Database
    index: VectorIndex

    def vectors_of_texts(self, generation: Generation, hashes: Sequence[str]) -> dict[str, Vector]:
        """Those of `hashes` some sibling carries a vector of."""
        found: dict[str, Vector] = {}
        for sibling in self._siblings(generation):
            if missing := [one for one in hashes if one not in found]:
                try:
                    found |= self.index.vectors_of_texts(sibling.collection, generation.tenant, missing)
                except NotFound:
                    continue  # nothing has been written to it yet, or it is being dropped
        return found

    def _siblings(self, generation: Generation) -> list[Generation]:
        with self.database.tenant(generation.tenant) as session:
            known = generations(session, generation.tenant)
        return [
            one
            for one in known
            if one.number != generation.number
            and one.state is not GenerationState.DROPPED
            and one.space.fingerprint == generation.space.fingerprint
        ]
