"""How a search ranks: every weight by name, and the profiles they come in."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from core.errors import Refused

Fusion = Literal["weighted", "rank"]
Scale = Literal["pool", "cosine"]
MOST_CANDIDATES = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """What decides the order of an answer. A strength of zero switches its part off, and it costs nothing.

    `vector` and `keyword` weigh the two legs, made to sum to one. `scale` says how a vector score becomes one
    within 0..1: by the first and fortieth of the pool, or the cosine as it is. `fusion` "rank" adds reciprocal
    ranks instead. `threshold` is what a merged score must reach, `keyword_threshold` what a hit of the keyword
    leg alone must, as a part of the best one. `decay_half_life` makes what is old count less, down to
    `decay_floor` of its score, but for `evergreen` types and what is pinned. `mmr` is the λ of maximal marginal
    relevance: 1 is relevance alone (off). `neighbours` is lent to what stands beside a hit, half of it to what
    stands next to that; `session` is for what stands in a session that answers as a whole, `speaker` for what
    was said by somebody the query names. `notes` is the part of `neighbours` and `session` that counts among
    the chunks of a note, which say more by themselves than turns do. `graph` is lent to what speaks of the same
    entities as the best hits, and is off unless chosen. Raises Refused for what makes no sense.
    """

    vector: float = 0.35
    keyword: float = 0.65
    fusion: Fusion = "weighted"
    scale: Scale = "pool"
    multiplier: int = 4
    threshold: float = 0.0
    keyword_threshold: float = 0.0
    decay_half_life: timedelta | None = None
    decay_floor: float = 0.1
    evergreen: tuple[str, ...] = ("fact", "preference", "decision")
    mmr: float = 1.0
    neighbours: float = 0.5
    session: float = 0.6
    speaker: float = 0.5
    notes: float = 0.05
    graph: float = 0.0

    def __post_init__(self) -> None:
        """Refuse what would rank nothing, or backwards."""
        for name in (
            "vector",
            "keyword",
            "threshold",
            "keyword_threshold",
            "neighbours",
            "session",
            "speaker",
            "notes",
            "graph",
        ):
            if not 0 <= getattr(self, name) <= 10:  # NaN is not within either
                raise Refused(f"{name} must be within 0..10", where=name)
        if self.vector + self.keyword <= 0:
            raise Refused("one of the weights of the legs, vector and keyword, must be above zero", where="vector")
        if not 0 <= self.mmr <= 1:
            raise Refused("mmr is a part of one: within 0..1", where="mmr")
        if not 0 <= self.decay_floor <= 1:
            raise Refused("decay_floor is a part of one: within 0..1", where="decay_floor")
        if self.decay_half_life is not None and self.decay_half_life <= timedelta(0):
            raise Refused("decay_half_life must be longer than nothing", where="decay_half_life")
        if self.multiplier < 1:
            raise Refused("multiplier must be at least 1", where="multiplier")

    @property
    def looks_around(self) -> bool:
        """Whether what a conversation knows counts at all."""
        return self.neighbours > 0 or self.session > 0 or self.speaker > 0

    def candidates(self, limit: int) -> int:
        """How many hits each leg is asked for at first."""
        return max(limit, min(limit * self.multiplier, MOST_CANDIDATES))


# The defaults were chosen on public conversations (README, "How well it finds"). PLAIN scores every record as if
# it stood alone, by the weights most engines have.
CONVERSATIONS = Ranking()
PLAIN = Ranking(vector=0.7, keyword=0.3, scale="cosine", threshold=0.35, neighbours=0.0, session=0.0, speaker=0.0)
PROFILES = {"conversations": CONVERSATIONS, "plain": PLAIN}
