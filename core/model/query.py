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
class Found:
    """One answer of a search: the record as it is now, and how near it is (cosine)."""

    memory: Memory
    score: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a search found, best first. `degraded` says why a leg is missing; None: nothing is."""

    found: tuple[Found, ...]
    generation: int
    degraded: str | None = None
