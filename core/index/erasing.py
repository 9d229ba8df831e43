"""The indexes and their snapshots as places of an erasure: points in every generation, rows in every snapshot."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from itertools import islice

from core.errors import NotFound
from core.index.points_removal import remove_points
from core.index.snapshots.forgetting import Forgetter
from core.model.erasure import Item
from core.model.generation import Generation, GenerationState
from core.ports import VectorIndex
from core.record.database import Database
from core.record.generations import generations
from core.record.memories import standings_of_points

PIECE = 1000


class IndexPlace:
    """Implements `Place` over all generations of a tenant that are not dropped."""

    name = "index"
    at_once = False

    def __init__(self, database: Database, index: VectorIndex) -> None:
        self._database = database
        self._index = index

    def remove(self, tenant: str, memories: Mapping[str, Item], *, everything: bool) -> None:
        """Remove points up to the versions that are meant; or every point of no memory that is there."""
        standing = self._generations(tenant)
        remove_points(self._index, standing, {item.point: item.version for item in memories.values()})
        if everything:
            for generation in standing:
                for piece in self._nobodys(generation):
                    self._index.delete(generation.collection, piece)

    def look(self, tenant: str, memories: Mapping[str, Item], *, everything: bool) -> int:
        """How many of these points there are, over all generations."""
        found = 0
        versions = {item.point: item.version for item in memories.values()}
        for generation in self._generations(tenant):
            try:
                if everything:
                    found += sum(len(piece) for piece in self._nobodys(generation))
                else:
                    stamps = self._index.stamps(generation.collection, list(versions))
                    found += sum(stamp.version <= versions[point] for point, stamp in stamps.items())
            except NotFound:
                continue
        return found

    def _generations(self, tenant: str) -> list[Generation]:
        with self._database.tenant(tenant) as session:
            return [one for one in generations(session, tenant) if one.state is not GenerationState.DROPPED]

    def _nobodys(self, generation: Generation) -> Iterator[dict[uuid.UUID, int]]:
        """Points of no memory that is there, piece by piece, each with its version: a later one is somebody's."""
        try:
            # All of them first: a scroll is not read on while points are taken from under it.
            points = iter([(point, stamp.version) for point, stamp in self._index.scroll(generation.collection)])
        except NotFound:
            return
        while piece := dict(islice(points, PIECE)):
            with self._database.tenant(generation.tenant) as session:
                said = standings_of_points(session, generation.tenant, generation.number, list(piece))
            yield {point: version for point, version in piece.items() if point not in said}


class SnapshotsPlace:
    """Implements `Place` over all snapshots of a tenant's generations."""

    name = "snapshots"
    at_once = True

    def __init__(self, forgetter: Forgetter) -> None:
        self._forgetter = forgetter

    def remove(self, tenant: str, memories: Mapping[str, Item], *, everything: bool) -> None:
        """Take the memories' rows out of every snapshot; or remove all snapshots. Raises Busy while one is taken."""
        if everything:
            self._forgetter.forget_all(tenant)
        elif memories:
            self._forgetter.forget(tenant, list(memories))

    def look(self, tenant: str, memories: Mapping[str, Item], *, everything: bool) -> int:
        """How many rows there are of these memories; or how many objects of snapshots at all."""
        return self._forgetter.objects(tenant) if everything else self._forgetter.rows(tenant, list(memories))
