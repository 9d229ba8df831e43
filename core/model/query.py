"""What a search asks for, and what it answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from core.model.memory import Memory


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """Conditions a hit must meet, all of them. None (or an empty tuple) asks for nothing.

    `created_from` is inclusive, `created_to` exclusive. The tenant is no filter: it is an argument
    of every call and is always ANDed by the engine.
    """

    scope: str | None = None
    project: str | None = None
    agent: str | None = None
    session: str | None = None
    role: str | None = None
    type: str | None = None
    tags_any: tuple[str, ...] = ()
    tags_all: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    tier: str | None = None
    min_importance: float | None = None
    created_from: datetime | None = None
    created_to: datetime | None = None

    def meets(self, memory: Memory) -> bool:
        """Whether a record meets them: an index may be behind the record, and the record has the last word."""
        tags = set(memory.tags)
        return (
            all(getattr(memory, field) == value for field, value in self.equalities.items())
            and (not self.tags_any or not tags.isdisjoint(self.tags_any))
            and tags.issuperset(self.tags_all)
            and all(memory.labels.get(name) == value for name, value in self.labels.items())
            and self.tier in (None, memory.tier)
            and (self.min_importance is None or memory.importance >= self.min_importance)
            and (self.created_from is None or memory.created_at >= self.created_from)
            and (self.created_to is None or memory.created_at < self.created_to)
        )

    @property
    def equalities(self) -> dict[str, str]:
        """The fields that must equal one value, by payload field."""
        named = {
            "scope": self.scope,
            "project": self.project,
            "agent": self.agent,
            "session": self.session,
            "role": self.role,
            "type": self.type,
        }
        return {field: value for field, value in named.items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The whole condition an index applies before its top-k: tenant, filters, and not expired at `alive_at`."""

    tenant: str
    filters: Filters
    alive_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What a score is made of.

    `cosine` and `bm25` are the legs' own scores, None where a leg did not find it; `vector` and `keyword` what they
    add to the merged score, `decay` what that is multiplied by for its age. `neighbours`, `session` and `speaker`
    are what the conversation around it adds; `scale` is what all of that is multiplied by, so that turns as a whole
    count no more than before beside records that stand alone. `graph` is lent by hits that speak of the same entities.
    """

    cosine: float | None = None
    bm25: float | None = None
    vector: float = 0.0
    keyword: float = 0.0
    decay: float = 1.0
    neighbours: float = 0.0
    session: float = 0.0
    speaker: float = 0.0
    scale: float = 1.0
    graph: float = 0.0

    @property
    def merged(self) -> float:
        """The score of the two legs together, after decay."""
        return (self.vector + self.keyword) * self.decay

    @property
    def total(self) -> float:
        """The whole score."""
        return (self.merged + self.neighbours + self.session + self.speaker) * self.scale + self.graph


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One answer of a search: the record as it is now, its score, and what that is made of.

    Its tier and source are the record's.
    """

    memory: Memory
    score: float
    parts: Parts = field(default_factory=Parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """Memories that stand together in a session or note, in order: hits and what was asked for around them.

    `score` is that of the best hit in it; `hits` are the ids of all of them.
    """

    memories: tuple[Memory, ...]
    hits: frozenset[str]
    score: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Leg:
    """How one leg of a search fared: its time, how many hits it gave, and why it gave none if it did not run."""

    name: str
    milliseconds: float
    hits: int = 0
    problem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a search found, best first. `degraded` says why a leg is missing; None: nothing is.

    `legs` tells of each leg; it is empty for an answer that was kept from before (`cached`), whose records are read
    anew all the same. `passages` are the hits with what stands around them, best first, if that was asked for.
    """

    found: tuple[Found, ...]
    generation: int
    degraded: str | None = None
    legs: tuple[Leg, ...] = ()
    cached: bool = False
    passages: tuple[Passage, ...] = ()
