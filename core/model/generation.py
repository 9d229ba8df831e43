"""Generations: one collection of one tenant, built with one embedding space."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from core.model.names import alias_name, collection_name
from core.model.space import EmbeddingSpace


class GenerationState(StrEnum):
    """Where a generation stands: building → verified → live → retiring → dropped, or aborted."""

    BUILDING = "building"
    VERIFIED = "verified"
    LIVE = "live"
    RETIRING = "retiring"
    ABORTED = "aborted"
    DROPPED = "dropped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """One generation as the record knows it. Everything not yet dropped is written to.

    `recovering`: its index is being rebuilt, as far as whoever asked was told.
    """

    tenant: str
    number: int
    index_group: str
    space: EmbeddingSpace
    state: GenerationState
    recovering: bool = False

    @property
    def collection(self) -> str:
        """Name of its collection."""
        return collection_name(self.index_group, self.number)

    @property
    def alias(self) -> str:
        """Name of the alias that points at the live generation of its group."""
        return alias_name(self.index_group)
