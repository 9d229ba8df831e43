"""The half of the fake vector index that is about names: collections, and aliases that name them."""

from __future__ import annotations

import threading
import uuid
from dataclasses import dataclass, field

from core.errors import Conflict, NotFound
from core.model.point import Point


@dataclass
class Collection:
    dimensions: int
    points: dict[uuid.UUID, Point] = field(default_factory=dict)


class MemoryCollections:
    def __init__(self) -> None:
        self._collections: dict[str, Collection] = {}
        self._aliases: dict[str, str] = {}
        self._lock = threading.RLock()

    def create(self, collection: str, dimensions: int) -> None:
        self._collections.setdefault(collection, Collection(dimensions))

    def drop(self, collection: str) -> None:
        with self._lock:
            if collection in self._aliases.values():
                raise Conflict(f"an alias names {collection}")
            self._collections.pop(collection, None)

    def collections(self) -> frozenset[str]:
        return frozenset(self._collections)

    def alias(self, alias: str) -> str | None:
        return self._aliases.get(alias)

    def point_alias(self, alias: str, collection: str, expected: str | None) -> None:
        with self._lock:
            self._named(collection)
            current = self.alias(alias)
            if current not in (collection, expected):
                raise Conflict(f"{alias} names {current}", current=current)
            self._aliases[alias] = collection

    def count(self, collection: str) -> int:
        return len(self._points(collection))

    def close(self) -> None:
        """Nothing is held."""

    def _points(self, collection: str) -> list[tuple[uuid.UUID, Point]]:
        return list(self._named(collection).points.items())

    def _named(self, collection: str) -> Collection:
        if collection not in self._collections:
            raise NotFound(f"there is no {collection}")
        return self._collections[collection]
