"""An embedder that keeps to its provider's limits, together with all other workers on the same key."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from core.errors import Overloaded
from core.index.turns import Turns
from core.model.quota import Grant, Lane, Quota, Wait
from core.model.space import EmbeddingSpace
from core.model.tokens import estimated_tokens
from core.ports import Embedder, Embeddings, EmbedLimits, TakesTurns, TextKind, Throttle

# What a refusal without a hint has everybody on the key wait, in seconds.
COOL_DOWN = 2.0
# How long a request waits for its turn: documents well within a lease, queries not longer than a person would.
PATIENCE = {"document": 30.0, "query": 2.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Throttling:
    """By which throttle, under which provider key, and to which limits."""

    throttle: Throttle
    key: str
    quota: Quota


def bulk_slots(quota: Quota) -> int | None:
    """How many requests for documents may be under way at once; None: any number."""
    return int(quota.rooms("bulk", 1.0)[2][1]) or None


class ThrottledEmbedder:
    """An `Embedder` around another: each request waits for its turn, and a refusal for load is told to all.

    Thread-safe. `sleep` is the clock's other half.
    """

    def __init__(self, embedder: Embedder, throttling: Throttling, sleep: Callable[[float], None] = time.sleep) -> None:
        self._embedder = embedder
        self._throttling = throttling
        self._sleep = sleep
        # What is kept for queries is not for documents: who was let in here would wait at the throttle, by estimates.
        self._turns = Turns(bulk_slots(throttling.quota))

    @property
    def space(self) -> EmbeddingSpace:
        """The space of the embedder inside."""
        return self._embedder.space

    @property
    def limits(self) -> EmbedLimits:
        """The limits of the embedder inside."""
        return self._embedder.limits

    @property
    def cools(self) -> bool:
        """Whether the provider asked everybody on the key to wait, and that time is not over."""
        by = self._throttling
        return bool(by.throttle.cooling([by.key]))

    def of_tenant(self, tenant: str) -> Embedder:
        """The same embedder, asked in this tenant's turn."""
        return _OfTenant(self, tenant)

    def embed(self, texts: Sequence[str], kind: TextKind, tenant: str = "") -> Embeddings:
        """Vectors of `texts`, in one request, when it is its turn, and its tenant's.

        Raises Overloaded when that takes longer than it is worth waiting, and whatever the embedder raises.
        """
        if kind == "query":  # they have slots of their own
            return self._embed(texts, kind, tenant)
        with self._turns.taken(tenant, PATIENCE[kind]) as ours:
            if not ours:
                raise Overloaded("as many requests as may be are under way", retry_after=COOL_DOWN)
            return self._embed(texts, kind, tenant)

    def _embed(self, texts: Sequence[str], kind: TextKind, tenant: str) -> Embeddings:
        by = self._throttling
        grant = self._granted(sum(map(estimated_tokens, texts)), kind, tenant)
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

    def _granted(self, tokens: int, kind: TextKind, tenant: str) -> Grant:
        by, owner = self._throttling, uuid.uuid4().hex
        lane: Lane = "query" if kind == "query" else "bulk"
        patience = PATIENCE[kind]
        granted: Grant | Wait = Wait(0.0)
        try:
            while isinstance(granted, Wait):
                granted = by.throttle.take(by.key, tokens, lane, by.quota, owner, tenant)
                if isinstance(granted, Wait):
                    patience -= granted.seconds
                    if patience < 0:
                        raise Overloaded("the provider's limits leave no room for now", retry_after=granted.seconds)
                    self._sleep(granted.seconds)
        except BaseException:
            by.throttle.leave(by.key, owner)  # an interrupt too: a dead booking would hold up the rest
            raise
        return granted


class _OfTenant:
    """A throttled embedder as one tenant's batches and queries use it."""

    def __init__(self, embedder: ThrottledEmbedder, tenant: str) -> None:
        self._embedder = embedder
        self._tenant = tenant

    @property
    def space(self) -> EmbeddingSpace:
        """The space of the embedder."""
        return self._embedder.space

    @property
    def limits(self) -> EmbedLimits:
        """The limits of the embedder."""
        return self._embedder.limits

    def embed(self, texts: Sequence[str], kind: TextKind) -> Embeddings:
        """Vectors of `texts`, in the tenant's turn: see `ThrottledEmbedder.embed`."""
        return self._embedder.embed(texts, kind, self._tenant)

    def close(self) -> None:
        """Nothing is held: the embedder is closed by whoever opened it."""


def in_turn(embedder: Embedder, tenant: str) -> Embedder:
    """The embedder as a tenant asks it: in its turn, where tenants take turns."""
    return embedder.of_tenant(tenant) if isinstance(embedder, TakesTurns) else embedder
