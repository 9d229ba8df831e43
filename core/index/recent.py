"""Vectors of texts and queries that were embedded a short while ago, in this process's memory."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence

from core.model.generation import Generation
from core.model.point import Vector
from core.model.space import EmbeddingSpace
from core.ports import TextKind

KEEP_SECONDS = 3600.0
OVERHEAD = 300  # bytes a vector takes besides its numbers: its key, and its place in the table

_Key = tuple[TextKind, str, str, str]


class RecentVectors:
    """A `KnownVectors`, bounded in bytes and in time; the least used go first. Thread-safe.

    What was paid for and could not be written (the index was away) is found again, and so is a text that was deleted
    and comes back. A document's vector is never given for a query: providers may embed them differently. `clock`
    counts seconds.
    """

    def __init__(self, room: int, clock: Callable[[], float]) -> None:
        self._room = room
        self._clock = clock
        self._kept: OrderedDict[_Key, tuple[float, Vector]] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    @property
    def bytes(self) -> int:
        """How many are taken."""
        return self._bytes

    def vectors_of_texts(self, generation: Generation, hashes: Sequence[str]) -> dict[str, Vector]:
        """Those of `hashes` that are kept, of documents of the generation's tenant and in its space."""
        return self.found("document", generation.tenant, generation.space, hashes)

    def found(self, kind: TextKind, tenant: str, space: EmbeddingSpace, hashes: Sequence[str]) -> dict[str, Vector]:
        """Vectors of texts of one kind, by their hashes."""
        oldest, result = self._clock() - KEEP_SECONDS, {}
        fingerprint = space.fingerprint
        with self._lock:
            for one in hashes:
                key = (kind, tenant, fingerprint, one)
                known = self._kept.get(key)
                if known is not None and known[0] >= oldest:
                    self._kept.move_to_end(key)
                    result[one] = known[1]
                elif known is not None:
                    self._forget(key)
        return result

    def keep(self, kind: TextKind, tenant: str, space: EmbeddingSpace, vectors: Mapping[str, Vector]) -> None:
        """Keep vectors by the hashes of their texts, in the place of what was used least."""
        now, fingerprint = self._clock(), space.fingerprint
        with self._lock:
            for one, vector in vectors.items():
                key = (kind, tenant, fingerprint, one)
                if key in self._kept:
                    self._forget(key)
                size = vector.nbytes + OVERHEAD
                if size > self._room:
                    continue
                while self._bytes + size > self._room:
                    self._forget(next(iter(self._kept)))
                # A copy: a row of an answer would keep the whole answer in memory.
                self._kept[key] = (now, vector.copy())
                self._bytes += size

    def _forget(self, key: _Key) -> None:
        self._bytes -= self._kept.pop(key)[1].nbytes + OVERHEAD
