"""Taking memories out of indexes for good, and making sure that they are out."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from contextlib import suppress

from core.errors import NotFound
from core.model.generation import Generation, GenerationState
from core.ports import VectorIndex


def remove_points(
    index: VectorIndex, generations: Iterable[Generation], versions: Mapping[uuid.UUID, int]
) -> dict[str, set[uuid.UUID]]:
    """Remove points not newer than the versions given from every generation; those still there, by collection.

    A collection that is not there holds none of them. Raises Transient, Misconfigured.
    """
    left: dict[str, set[uuid.UUID]] = {}
    for generation in generations:
        if generation.state is GenerationState.DROPPED:
            continue
        with suppress(NotFound):
            index.delete(generation.collection, versions)
        left[generation.collection] = points_of(index, generation, versions)
    return left


def points_of(index: VectorIndex, generation: Generation, points: Iterable[uuid.UUID]) -> set[uuid.UUID]:
    """Which of these points a generation's collection holds now."""
    try:
        return set(index.stamps(generation.collection, list(points)))
    except NotFound:
        return set()
