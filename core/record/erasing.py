"""The archive, the cache and the graph as places of an erasure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from itertools import islice

from core.model.erasure import Item
from core.model.names import index_group, parse_archive_key
from core.ports import BlobStore, Cache
from core.record import archives, graph
from core.record.contents import CONTENT_KEPT, cache_key
from core.record.database import Database
from core.record.ledger import folder
from core.record.objects import purge, versions

PIECE = 500
# How long the cache refuses an erased memory: longer than any reader that began before holds on to it.
CACHE_REFUSES = max(CONTENT_KEPT, timedelta(hours=1))


class ObjectsPlace:
    """Implements `Place` over the object store, in every version it keeps of an object."""

    name = "objects"
    at_once = False

    def __init__(self, database: Database, blobs: BlobStore) -> None:
        self._database = database
        self._blobs = blobs

    def remove(self, tenant: str, memories: Mapping[str, Item], *, everything: bool) -> None:
        """Remove the memories' objects, announced or not; or all under the tenant's name but the ledger of deletions.

        That stays: without it, a record restored from an older backup would serve the erased again.
        """
        objects = self._objects(tenant, memories)
        purge(self._blobs, sorted({one.key for one in objects}.union(self._kept(tenant, memories))))
        with self._database.tenant(tenant) as session:
            # One whose put may still arrive stays announced: the next look has to find it.
            archives.drop_objects(session, tenant, [one.key for one in objects if not one.arriving])
        if everything:
            for piece in self._nobodys(tenant):
                purge(self._blobs, piece)

    def look(self, tenant: str, memories: Mapping[str, Item], *, everything: bool) -> int:
        """How many of these objects there are."""
        if everything:
            return sum(len(piece) for piece in self._nobodys(tenant))
        return len(set(self._kept(tenant, memories)))

    def _nobodys(self, tenant: str) -> Iterator[list[str]]:
        """Objects that were announced for no memory that is there, piece by piece: a put is announced before."""
        keys = iter(sorted(set(self._keys(tenant))))
        while piece := list(islice(keys, PIECE)):
            with self._database.tenant(tenant) as session:
                living = archives.living(session, tenant, piece)
            yield [key for key in piece if key not in living]

    def _keys(self, tenant: str) -> Iterator[str]:
        ledger = folder(tenant)
        listed = (info.key for info in versions(self._blobs, f"{index_group(tenant)}/"))
        return (key for key in listed if not key.startswith(ledger))

    def _kept(self, tenant: str, memories: Mapping[str, Item]) -> Iterator[str]:
        """Keys under which any version of an object of these memories is kept, whether it was announced or not."""
        for key in self._keys(tenant) if memories else ():
            parsed = parse_archive_key(key)
            item = None if parsed is None or parsed[0] != tenant else memories.get(parsed[1])
            if item is not None and _version(key) <= item.version:
                yield key

    def _objects(self, tenant: str, memories: Mapping[str, Item]) -> list[archives.Object]:
        if not memories:
            return []
        with self._database.tenant(tenant) as session:
            found = archives.objects_of(session, tenant, list(memories))
        return [one for one in found if _version(one.key) <= memories[one.memory_id].version]


class CachePlace:
    """Implements `Place` over the hot cache. What other caches hold is bound to a version and ends by itself."""

    name = "cache"
    at_once = False

    def __init__(self, cache: Cache) -> None:
        self._cache = cache

    def remove(
        self,
        tenant: str,  # noqa: ARG002
        memories: Mapping[str, Item],
        *,
        everything: bool,  # noqa: ARG002
    ) -> timedelta | None:
        """Drop the memories' contents, and take none of these versions back for a while; out of reach: their time."""
        dropped = [
            self._cache.drop_older(cache_key(item.point.hex), item.version, CACHE_REFUSES) for item in memories.values()
        ]
        return None if all(dropped) else CONTENT_KEPT

    def look(self, tenant: str, memories: Mapping[str, Item], *, everything: bool) -> int:  # noqa: ARG002
        """How many of these contents are cached."""
        kept = {name: self._cache.get_versioned(cache_key(item.point.hex)) for name, item in memories.items()}
        return sum(one is not None and one.version <= memories[name].version for name, one in kept.items())


class GraphPlace:
    """Implements `Place` over the knowledge graph. What other memories support too, or a caller states, stays.

    With everything that goes as well, but for what belongs to memories written meanwhile.
    """

    name = "graph"
    at_once = False

    def __init__(self, database: Database) -> None:
        self._database = database

    def remove(self, tenant: str, memories: Mapping[str, Item], *, everything: bool) -> None:
        """Remove what the memories supported and no row of theirs supports now, and the entities only they named."""
        with self._database.tenant(tenant) as session:
            graph.forget(session, tenant, list(memories))
        gone = everything
        while gone:
            with self._database.tenant(tenant) as session:
                gone = bool(graph.erase(session, tenant, PIECE))

    def look(self, tenant: str, memories: Mapping[str, Item], *, everything: bool) -> int:
        """How many relations rest on these memories alone, which are gone; or how much rests on none."""
        with self._database.tenant(tenant) as session:
            return graph.held(session, tenant, None if everything else list(memories))


def _version(key: str) -> int:
    parsed = parse_archive_key(key)
    return 0 if parsed is None else parsed[2]
