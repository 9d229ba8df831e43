"""An embedder for tests: words hashed into a vector, so that texts that share words are near each other."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

import numpy as np

from core.errors import Refused
from core.model.point import Vector
from core.model.space import EmbeddingSpace
from core.ports import Embeddings, EmbedLimits, TextKind


def _go_on(texts: Sequence[str]) -> None:
    """Neither fails nor waits."""


class FakeEmbedder:
    """Counts what it is asked; `before` is called first each time, and may raise or block."""

    def __init__(self, dimensions: int = 32, model: str = "fake", max_items: int = 100) -> None:
        self.space = EmbeddingSpace(provider="fake", model=model, dimensions=dimensions)
        self.limits = EmbedLimits(items=max_items)
        self.before: Callable[[Sequence[str]], None] = _go_on
        self.calls = 0
        self.texts: list[str] = []
        self.closed = False

    def embed(self, texts: Sequence[str], kind: TextKind) -> Embeddings:
        self.calls += 1
        self.texts += texts
        self.before(texts)
        vectors = np.stack([self._vector(index, text) for index, text in enumerate(texts)])
        return Embeddings(vectors, sum(len(text.split()) for text in texts))

    def close(self) -> None:
        self.closed = True

    def _vector(self, index: int, text: str) -> Vector:
        if not text.strip():
            raise Refused("blank", where=f"texts[{index}]", index=index)
        vector = np.zeros(self.space.dimensions, dtype=np.float32)
        for word in text.lower().split():
            digest = hashlib.blake2b(f"{self.space.model} {word}".encode(errors="replace")).digest()
            vector[int.from_bytes(digest[:4], "big") % self.space.dimensions] += 1  # never zero in the end
        return (vector / np.linalg.norm(vector)).astype(np.float32)
