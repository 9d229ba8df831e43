"""An embedder that keeps to its provider's limits, together with all other workers on the same key."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from core.errors import Overloaded
from core.model.quota import Grant, Quota, Wait
from core.model.space import EmbeddingSpace
from core.model.tokens import estimated_tokens
from core.ports import Embedder, Embeddings, EmbedLimits, TextKind, Throttle

# What a refusal without a hint has everybody on the key wait, in seconds.
COOL_DOWN = 2.0
# How long a request waits for its turn: documents well within a lease, queries not longer than a person would.
PATIENCE = {"document": 30.0, "query": 2.0}
UNBOUNDED = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Throttling:
    """By which throttle, under which provider key, and to which limits."""

    throttle: Throttle
    key: str
    quota: Quota


class ThrottledEmbedder:
    """An `Embedder` around another: each request waits for its turn, and a refusal for load is told to all.

    Thread-safe. `sleep` is the clock's other half.
    """

    def __init__(self, embedder: Embedder, throttling: Throttling, sleep: Callable[[float], None] = time.sleep) -> None:
        self._embedder = embedder
        self._throttling = throttling
        self._sleep = sleep
        # Within this process a free slot is known at once; between processes it is only estimated.
        self._slots = threading.Semaphore(throttling.quota.at_once or UNBOUNDED)

    @property
    def space(self) -> EmbeddingSpace:
        """The space of the embedder inside."""
        return self._embedder.space

    @property
    def limits(self) -> EmbedLimits:
        """The limits of the embedder inside."""
        return self._embedder.limits

    def embed(self, texts: Sequence[str], kind: TextKind) -> Embeddings:
        """Vectors of `texts`, in one request, when it is its turn.

        Raises Overloaded when that takes longer than it is worth waiting, and whatever the embedder raises.
        """
        if kind == "query":  # they have slots of their own
            return self._embed(texts, kind)
        if not self._slots.acquire(timeout=PATIENCE[kind]):
            raise Overloaded("as many requests as may be are under way", retry_after=COOL_DOWN)
        try:
            return self._embed(texts, kind)
        finally:
            self._slots.release()

    def _embed(self, texts: Sequence[str], kind: TextKind) -> Embeddings:
        by = self._throttling
        grant = self._granted(sum(map(estimated_tokens, texts)), kind)
        used: int | None = None
        try:
            answer = self._embedder.embed(texts, kind)
            used = answer.tokens
        except Overloaded as problem:
            by.throttle.cool_down(by.key, COOL_DOWN if problem.retry_after is None else problem.retry_after)
            raise
        finally:
            by.throttle.give_back(by.key, grant, used)
        return answer

    def close(self) -> None:
        """Close the embedder inside."""
        self._embedder.close()

    def _granted(self, tokens: int, kind: TextKind) -> Grant:
        by, owner = self._throttling, uuid.uuid4().hex
        patience = PATIENCE[kind]
        granted: Grant | Wait = Wait(0.0)
        try:
            while isinstance(granted, Wait):
                granted = by.throttle.take(by.key, tokens, "query" if kind == "query" else "bulk", by.quota, owner)
                if isinstance(granted, Wait):
                    patience -= granted.seconds
                    if patience < 0:
                        raise Overloaded("the provider's limits leave no room for now", retry_after=granted.seconds)
                    self._sleep(granted.seconds)
        except BaseException:
            by.throttle.leave(by.key, owner)  # an interrupt too: a dead booking would hold up the rest
            raise
        return granted
