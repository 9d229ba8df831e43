"""The way out: get, list, count and search. Whatever an index or cache says, PostgreSQL has the last word."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta

import numpy as np

from core.errors import NotFound, Refused
from core.index.vectors import checked
from core.model.generation import Generation
from core.model.memory import Memory
from core.model.point import Hit, Vector
from core.model.query import Answer, Filters, Found, Selection
from core.model.space import EmbeddingSpace, text_hash
from core.ports import Cache, Embedder, VectorIndex
from core.read.rehydrate import Rehydrate
from core.record import memories
from core.record.database import Database
from core.record.generations import live_generation
from core.record.memories import Place, Position

# Candidates are asked for again, twice as many, until enough of them are alive: at most this many.
POOL = 2048
FIRST_POOL = 32
TOO_FAR_BEHIND = f"the index is far behind the record: of its first {POOL} hits most are gone; run the embed chore"
GENERATION_KEPT = timedelta(seconds=1)
QUERY_VECTOR_KEPT = timedelta(hours=1)


class Reader:
    """Reads memories of any tenant. Thread-safe. `clock` tells how old the known generation is."""

    def __init__(
        self,
        database: Database,
        index: VectorIndex,
        cache: Cache,
        embedder_of: Callable[[EmbeddingSpace], Embedder],
        clock: Callable[[], float],
        rehydrate: Rehydrate | None = None,
    ) -> None:
        self._rehydrate = rehydrate
        self._database = database
        self._index = index
        self._cache = cache
        self._embedder_of = embedder_of
        self._clock = clock
        self._live: dict[str, tuple[float, Generation]] = {}
        self._lock = threading.Lock()

    def get(self, tenant: str, memory_id: str) -> Memory:
        """One memory by id. Raises NotFound when it is deleted, expired or never was."""
        found = self.get_many(tenant, [memory_id])
        if memory_id not in found:
            raise NotFound("there is no such memory")
        return found[memory_id]

    def get_many(self, tenant: str, memory_ids: Sequence[str]) -> dict[str, Memory]:
        """The live memories among some ids, by id, whole. Raises as `Rehydrate.all` does."""
        with self._database.tenant(tenant) as session:
            found = memories.fetch(session, tenant, memory_ids)
        return found if self._rehydrate is None else self._rehydrate.all(found)

    def page(self, tenant: str, place: Place, limit: int, after: Position | None = None) -> list[Memory]:
        """Up to `limit` memories of a place, newest first, behind `after` (the last row of the page before).

        Of archived ones the beginning of the content, with `stored` set.
        """
        if limit < 1:
            raise Refused("a page holds at least one memory", where="limit")
        with self._database.tenant(tenant) as session:
            found = memories.page(session, tenant, place, after, limit)
        return found if self._rehydrate is None else self._rehydrate.listed(found)

    def count(self, tenant: str) -> int:
        """How many live memories a tenant has."""
        with self._database.tenant(tenant) as session:
            return memories.count(session, tenant)

    def search(self, tenant: str, text: str, limit: int, filters: Filters) -> Answer:
        """The memories nearest to a text, best first, none of them deleted, expired or another tenant's.

        `text` has been through the text gate and is not blank. The query is embedded in the space of
        the collection it searches. Raises Transient when PostgreSQL, the index or the embedder is out
        of reach.
        """
        if limit < 1:
            raise Refused("ask for at least one answer", where="limit")
        generation = self._generation(tenant, fresh=False)
        if generation is None:
            return Answer(found=(), generation=0)
        try:
            found = self._search(generation, text, limit, filters)
        except NotFound:
            # The collection was dropped after a swap, or nothing has been indexed yet.
            generation = self._generation(tenant, fresh=True) or generation
            try:
                found = self._search(generation, text, limit, filters)
            except NotFound:
                return Answer(found=(), generation=generation.number, degraded="nothing has been indexed yet")
        return found

    def _search(self, generation: Generation, text: str, limit: int, filters: Filters) -> Answer:
        with self._database.tenant(generation.tenant) as session:
            keys = memories.keys(session)
        vector = self._query_vector(generation.space, text, keys.hash_key)
        selection = Selection(tenant=generation.tenant, filters=filters, alive_at=keys.moment)
        pool = min(max(FIRST_POOL, 2 * limit), max(POOL, limit))
        while True:
            hits = self._index.search(generation.collection, vector, selection, pool)
            found = self._records(generation.tenant, hits, filters)[:limit]
            if len(found) >= limit or len(hits) < pool:
                return self._answer(found, generation, None)
            if pool >= max(POOL, limit):
                return self._answer(found, generation, TOO_FAR_BEHIND)
            pool = min(2 * pool, max(POOL, limit))

    def _records(self, tenant: str, hits: Sequence[Hit], filters: Filters) -> list[Found]:
        """The records behind hits that are alive and meet the filters now, in the order of the hits."""
        if not hits:
            return []
        with self._database.tenant(tenant) as session:
            records = memories.fetch_points(session, tenant, [hit.embedding_id for hit in hits])
        return [
            Found(memory=records[hit.embedding_id], score=hit.score)
            for hit in hits
            if hit.embedding_id in records and filters.meets(records[hit.embedding_id])
        ]

    def _answer(self, found: list[Found], generation: Generation, degraded: str | None) -> Answer:
        """The answer with whole memories; what else is missing is said too."""
        if self._rehydrate is not None:
            whole, unread = self._rehydrate.hits({one.memory.id: one.memory for one in found})
            found = [replace(one, memory=whole[one.memory.id]) for one in found if one.memory.id in whole]
            degraded = "; ".join(reason for reason in (degraded, unread) if reason) or None
        return Answer(found=tuple(found), generation=generation.number, degraded=degraded)

    def _query_vector(self, space: EmbeddingSpace, text: str, hash_key: bytes) -> Vector:
        prepared = space.query_text(text)
        key = f"query:{space.fingerprint}:{text_hash(prepared, hash_key)}"
        cached = self._cache.get(key)
        if cached is not None and len(cached) == 4 * space.dimensions:
            return np.asarray(np.frombuffer(cached, dtype="<f4"), dtype=np.float32)
        vector: Vector = checked(self._embedder_of(space), [prepared], "query").vectors[0]
        self._cache.put(key, vector.astype("<f4").tobytes(), QUERY_VECTOR_KEPT)
        return vector

    def _generation(self, tenant: str, *, fresh: bool) -> Generation | None:
        """The live generation, collection and space as one, known for a moment."""
        now = self._clock()
        with self._lock:
            known = self._live.get(tenant)
        if known is not None and not fresh and now - known[0] < GENERATION_KEPT.total_seconds():
            return known[1]
        with self._database.tenant(tenant) as session:
            generation = live_generation(session, tenant)
        if generation is not None:
            with self._lock:
                self._live[tenant] = (now, generation)
        return generation
