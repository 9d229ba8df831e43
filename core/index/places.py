"""Where a generation's points go: its collection and alias, made when they are first needed.

Registering a generation touches PostgreSQL only, so that a first write succeeds while the index is down.
"""

from __future__ import annotations

import threading

from core.errors import Conflict
from core.model.generation import Generation, GenerationState
from core.ports import VectorIndex


class Places:
    """Knows which collections are there, and makes those that are not. Thread-safe."""

    def __init__(self, index: VectorIndex) -> None:
        self._index = index
        self._ready: set[str] = set()
        self._lock = threading.Lock()

    def prepare(self, generation: Generation) -> None:
        """Make sure the generation's collection stands and, if it is live, that an alias of its tenant does."""
        with self._lock:
            if generation.collection in self._ready:
                return
            self._index.create(generation.collection, generation.space.dimensions)
            if generation.state is GenerationState.LIVE:
                self._name(generation)
            self._ready.add(generation.collection)

    def forget(self, generation: Generation) -> None:
        """The collection turned out to be gone: look again the next time."""
        with self._lock:
            self._ready.discard(generation.collection)

    def _name(self, generation: Generation) -> None:
        try:
            self._index.point_alias(generation.alias, generation.collection, None)
        except Conflict:
            # It names another collection: moving an alias is the business of a swap, never of a writer.
            return
