"""Points: what the vector index holds of a memory."""

from __future__ import annotations

import math
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from core.errors import BadAnswer

Vector = NDArray[np.float32]
FieldKind = Literal["keyword", "float", "datetime"]
_ROUNDED = 1e-12

# Every field points are looked up by, each with a payload index made before the first point. Guards read the
# version of points they name by id, for which an index is only memory.
PAYLOAD_FIELDS: dict[str, FieldKind] = {
    "tenant": "keyword",
    "text_hash": "keyword",
    "scope": "keyword",
    "project": "keyword",
    "agent": "keyword",
    "session": "keyword",
    "role": "keyword",
    "type": "keyword",
    "tags": "keyword",
    "labels": "keyword",
    "importance": "float",
    "created_at": "datetime",
    "expires_at": "datetime",
}


@dataclass(frozen=True, slots=True)
class Stamp:
    """What a stored point says of itself: the record's version and the hash of the embedded text."""

    version: int
    text_hash: str


@dataclass(frozen=True, slots=True)
class Payload:
    """The payload of one point. `fields` is what the index stores, absent values left out."""

    embedding_id: uuid.UUID
    stamp: Stamp
    fields: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Point:
    """A payload and its vector, float32, of the generation's width."""

    payload: Payload
    vector: Vector


@dataclass(frozen=True, slots=True)
class Hit:
    """A point a search found, with its similarity (cosine: higher is nearer)."""

    embedding_id: uuid.UUID
    score: float


class Indexable(Protocol):
    """What a payload is made of: a memory, or as much of one."""

    @property
    def tenant(self) -> str:
        """Whose it is."""

    @property
    def id(self) -> str:
        """The memory's id."""

    @property
    def embedding_id(self) -> uuid.UUID:
        """The point's id."""

    @property
    def version(self) -> int:
        """The record's version."""

    @property
    def scope(self) -> str:
        """See `Memory`, here and below."""

    @property
    def project(self) -> str | None:
        """May be none."""

    @property
    def agent(self) -> str | None:
        """May be none."""

    @property
    def session(self) -> str | None:
        """May be none."""

    @property
    def role(self) -> str | None:
        """May be none."""

    @property
    def type(self) -> str:
        """Its kind."""

    @property
    def tags(self) -> Sequence[str]:
        """In their order."""

    @property
    def labels(self) -> Mapping[str, Any] | None:
        """By name; may be none."""

    @property
    def importance(self) -> float:
        """Within 0..1."""

    @property
    def expires_at(self) -> datetime | None:
        """May be none."""

    @property
    def created_at(self) -> datetime:
        """Aware."""


def payload_of(memory: Indexable, text_hash: str) -> Payload:
    """The payload a memory's point carries in every generation."""
    fields: dict[str, Any] = {
        "tenant": memory.tenant,
        "id": memory.id,
        "version": memory.version,
        "text_hash": text_hash,
        "scope": memory.scope,
        "type": memory.type,
        "tags": list(memory.tags),
        "importance": memory.importance,
        "created_at": as_rfc3339(memory.created_at),
    }
    # One by one: a recovery makes as many of these a second as an index can take.
    if memory.project is not None:
        fields["project"] = memory.project
    if memory.agent is not None:
        fields["agent"] = memory.agent
    if memory.session is not None:
        fields["session"] = memory.session
    if memory.role is not None:
        fields["role"] = memory.role
    if memory.labels:
        fields["labels"] = [label_value(*pair) for pair in sorted(memory.labels.items())]
    if memory.expires_at is not None:
        fields["expires_at"] = as_rfc3339(memory.expires_at)
    return Payload(memory.embedding_id, Stamp(memory.version, text_hash), fields)


def same_fields(stored: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether a stored payload is the wanted one. An index may give a float back with its last bit changed."""
    if stored.keys() != wanted.keys():
        return False
    return all(
        math.isclose(stored[name], value, rel_tol=_ROUNDED, abs_tol=_ROUNDED)
        if isinstance(value, float) and isinstance(stored[name], int | float)
        else stored[name] == value
        for name, value in wanted.items()
    )


def label_value(name: str, value: str) -> str:
    """A label as a point carries it: no two labels read the same."""
    return f"{len(name)}:{name}={value}"


def as_rfc3339(moment: datetime) -> str:
    """An aware time as the index stores it: UTC, microseconds, `Z`."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds")[:-6] + "Z"


def unit_rows(vectors: Sequence[Vector], width: int) -> Vector:
    """The vectors as rows of length one, shape (len(vectors), width). Raises BadAnswer for those that are none.

    An index itself stores NaN (which scores first in every answer), zero, and half a batch of mixed widths.
    """
    if any(vector.shape != (width,) for vector in vectors):
        raise BadAnswer(f"a vector has not the collection's {width} dimensions")
    rows = np.stack(list(vectors)).astype(np.float32, copy=False)
    # In float64: a length of 1e30 or 1e-30 has no square in float32.
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))
    if not (np.isfinite(lengths).all() and lengths.all()):
        raise BadAnswer("a vector is zero or not finite")
    units: Vector = (rows / lengths[:, None]).astype(np.float32)
    return units
