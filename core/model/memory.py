"""The record: what a caller hands in (`Draft`) and what the engine keeps (`Memory`)."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from core.model.graph import Relation

Tier = Literal["warm", "cold", "archive"]

DEFAULT_SCOPE = "default"
DEFAULT_TYPE = "memory"
DEFAULT_IMPORTANCE = 0.5

# Fixed for ever: changing it would give every memory another point id.
_EMBEDDING_IDS = uuid.UUID("6f2a5f6e-2c0b-5e38-9d5c-7c1b6a0f4e11")


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where an ingested memory came from: a file and the lines it covers (1-based, inclusive)."""

    path: str
    first_line: int
    last_line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A memory as its caller gives it. Only `content` is required.

    An `id` makes the write idempotent: the same id again replaces the record, and the same id with
    the same values changes nothing. A naive `created_at` or `expires_at` is UTC. `importance` is
    within 0..1. `subject` names the person the memory is about, the key an erasure goes by. What is
    `sensitive` is kept sealed under a key of its tenant, is found by its vector alone, and supports no `relations`.
    Each write states all of these anew.
    """

    content: str
    id: str | None = None
    subject: str | None = None
    scope: str = DEFAULT_SCOPE
    project: str | None = None
    agent: str | None = None
    session: str | None = None
    position: int | None = None
    speaker: str | None = None
    role: str | None = None
    type: str = DEFAULT_TYPE
    title: str | None = None
    tags: Sequence[str] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    importance: float = DEFAULT_IMPORTANCE
    source: Source | None = None
    expires_at: datetime | None = None
    created_at: datetime | None = None
    sensitive: bool = False
    relations: Sequence[Relation] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Sealed(Draft):
    """A sensitive draft whose content, title and metadata values were sealed, under the data key `key_id`."""

    key_id: str


@dataclass(frozen=True, slots=True)
class Stored:
    """Where the whole content of a memory is when its row holds only the beginning: object and its SHA-256."""

    key: str
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """One record as PostgreSQL keeps it. Times are aware, in UTC.

    With `stored` set, `content` is only the beginning of the text. With `key_id` set, content, title and metadata
    values are sealed under that data key. `keep`: nothing moves or reaps it.
    """

    tenant: str
    id: str
    embedding_id: uuid.UUID
    version: int
    content: str
    scope: str
    type: str
    importance: float
    tier: str
    tags: tuple[str, ...]
    labels: Mapping[str, str]
    metadata: Mapping[str, Any]
    created_at: datetime
    updated_at: datetime
    subject: str | None = None
    project: str | None = None
    agent: str | None = None
    session: str | None = None
    position: int | None = None
    speaker: str | None = None
    role: str | None = None
    title: str | None = None
    source: Source | None = None
    expires_at: datetime | None = None
    accessed_at: datetime | None = None
    keep: bool = False
    key_id: str | None = None
    stored: Stored | None = None


def embedding_id(tenant: str, memory_id: str) -> uuid.UUID:
    """Point id of a memory: a name-based UUID (RFC 9562, version 5) of tenant and id.

    The length of the tenant stands first, so that no two (tenant, id) pairs read the same.
    """
    return uuid.uuid5(_EMBEDDING_IDS, f"{len(tenant)}:{tenant}{memory_id}")
