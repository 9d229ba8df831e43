"""Where vectors that were already paid for can be found, besides the collection that is being written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from core.model.generation import Generation
from core.model.point import Vector


class KnownVectors(Protocol):
    """A store of vectors by text hash. Thread-safe."""

    def vectors_of_texts(self, generation: Generation, hashes: Sequence[str]) -> dict[str, Vector]:
        """Those of `hashes` whose vectors, of the generation's tenant and in its space, are kept here.

        A hint and no truth: a store out of reach answers nothing, and says so in the log.
        """
