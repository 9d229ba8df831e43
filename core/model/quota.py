"""What a provider allows, and the answers of a throttle that keeps to it."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import Literal

from core.errors import Misconfigured

Lane = Literal["query", "bulk"]
Room = tuple[float, float]  # of all, and of this lane; 0: no limit


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """What a provider allows for one key; None: no such limit.

    `kept_for_queries` is the share of the rates, and of the slots (rounded up), that only queries may use;
    bulk work always keeps one request and one slot. Raises Misconfigured for limits that allow nothing.
    """

    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    at_once: int | None = None
    kept_for_queries: float = 0.0

    def __post_init__(self) -> None:
        limits = (self.requests_per_minute, self.tokens_per_minute, self.at_once)
        if any(limit is not None and limit < 1 for limit in limits) or not 0 <= self.kept_for_queries < 1:
            raise Misconfigured("limits of a provider are at least 1, and the share kept for queries is below 1")

    def rooms(self, lane: Lane, share: float) -> tuple[Room, Room, Room]:
        """Requests, tokens and slots for `share` of this quota: of all, and of this lane (0: no limit)."""
        kept = self.kept_for_queries if lane == "bulk" else 0.0
        rates = []
        for limit, least in ((self.requests_per_minute, 1.0), (self.tokens_per_minute, 0.0)):
            whole = (limit or 0) * share
            rates.append((whole, max(min(whole, least), whole * (1 - kept))))
        slots = float(max(1, math.floor(self.at_once * share))) if self.at_once else 0.0
        return rates[0], rates[1], (slots, max(min(slots, 1.0), slots - math.ceil(slots * kept)))


@dataclass(frozen=True, slots=True)
class Grant:
    """Leave to send one request now; to be given back when it has ended."""

    id: str


@dataclass(frozen=True, slots=True)
class Wait:
    """Not now: ask again after so many seconds."""

    seconds: float


def provider_key(endpoint: str, api_key: str) -> str:
    """The name under which a provider's limits are shared: a digest, from which neither can be read."""
    return hashlib.sha256(f"{len(endpoint)}:{endpoint}{api_key}".encode()).hexdigest()[:32]
