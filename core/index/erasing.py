"""The indexes as places of an erasure: points in every generation."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from itertools import islice

from core.errors import NotFound
from core.index.removal import remove_points
from core.model.erasure import Item
from core.model.generation import Generation, GenerationState
from core.model.version import CEILING
from core.ports import VectorIndex
from core.record.database import Database
from core.record.generations import generations

PIECE = 1000


class IndexPlace:
    """Implements `Place` over all generations of a tenant that are not dropped."""

    name = "index"

    def __init__(self, database: Database, index: VectorIndex) -> None:
        self._database = database
        self._index = index

    def remove(self, tenant: str, memories: Mapping[str, Item], *, everything: bool) -> None:
        """Remove points up to the versions that are meant; or every point of the tenant."""
        standing = self._generations(tenant)
        remove_points(self._index, standing, {item.point: item.version for item in memories.values()})
        if everything:
            for generation in standing:
                points = iter(self._points(generation))
                while piece := list(islice(points, PIECE)):
                    self._index.delete(generation.collection, dict.fromkeys(piece, CEILING - 1))

    def look(self, tenant: str, memories: Mapping[str, Item], *, everything: bool) -> int:
        """How many of these points there are, over all generations."""
        found = 0
        versions = {item.point: item.version for item in memories.values()}
        for generation in self._generations(tenant):
            try:
                if everything:
                    found += self._index.count(generation.collection)
                else:
                    stamps = self._index.stamps(generation.collection, list(versions))
                    found += sum(stamp.version <= versions[point] for point, stamp in stamps.items())
            except NotFound:
                continue
        return found

    def _generations(self, tenant: str) -> list[Generation]:
        with self._database.tenant(tenant) as session:
            return [one for one in generations(session, tenant) if one.state is not GenerationState.DROPPED]

    def _points(self, generation: Generation) -> Iterator[uuid.UUID]:
        try:
            # All of them first: a scroll is not read on while points are taken from under it.
            yield from [point for point, _ in self._index.scroll(generation.collection)]
        except NotFound:
            return
