"""A vector index in dictionaries: the rules of the port in their plainest words."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from core.model.point import Hit, Payload, Point, Stamp, Vector
from core.model.query import Selection
from tests.contract.fake_collections import MemoryCollections
from tests.contract.vector_index import meets, unit


class MemoryIndex(MemoryCollections):
    def upsert(self, collection: str, points: Sequence[Point]) -> None:
        named = self._named(collection)
        units = [unit(point.vector, named.dimensions) for point in points]
        with self._lock:
            for point, vector in zip(points, units, strict=True):
                old = named.points.get(point.payload.embedding_id)
                if old is None or old.payload.stamp.version <= point.payload.stamp.version:
                    named.points[point.payload.embedding_id] = Point(point.payload, vector)

    def set_payload(self, collection: str, payloads: Sequence[Payload]) -> None:
        points = self._named(collection).points
        with self._lock:
            for new in (payload for payload in payloads if payload.embedding_id in points):
                old = points[new.embedding_id]
                if old.payload.stamp.text_hash == new.stamp.text_hash and old.payload.stamp.version < new.stamp.version:
                    points[new.embedding_id] = Point(new, old.vector)

    def delete(self, collection: str, versions: Mapping[uuid.UUID, int]) -> None:
        points = self._named(collection).points
        with self._lock:
            for key in versions.keys() & points.keys():
                if points[key].payload.stamp.version <= versions[key]:
                    del points[key]

    def stamps(self, collection: str, ids: Sequence[uuid.UUID]) -> dict[uuid.UUID, Stamp]:
        return {key: point.payload.stamp for key, point in self._points(collection) if key in set(ids)}

    def vectors(self, collection: str, ids: Sequence[uuid.UUID]) -> dict[uuid.UUID, Vector]:
        return {key: point.vector for key, point in self._points(collection) if key in set(ids)}

    def payloads(self, collection: str, ids: Sequence[uuid.UUID]) -> dict[uuid.UUID, Mapping[str, object]]:
        return {key: point.payload.fields for key, point in self._points(collection) if key in set(ids)}

    def vectors_of_texts(self, collection: str, tenant: str, hashes: Sequence[str]) -> dict[str, Vector]:
        own = [(p.payload.stamp, p) for _, p in self._points(collection) if p.payload.fields["tenant"] == tenant]
        return {stamp.text_hash: p.vector for stamp, p in own if stamp.text_hash in hashes}

    def search(self, collection: str, vector: Vector, selection: Selection, limit: int) -> list[Hit]:
        asked = unit(vector, self._named(collection).dimensions)
        met = [(key, p) for key, p in self._points(collection) if meets(p.payload.fields, selection)]
        return sorted((Hit(key, float(np.dot(asked, p.vector))) for key, p in met), key=lambda hit: -hit.score)[:limit]

    def scroll(self, collection: str, start: uuid.UUID | None = None) -> Iterator[tuple[uuid.UUID, Stamp]]:
        yield from sorted((key, p.payload.stamp) for key, p in self._points(collection) if not start or key >= start)
