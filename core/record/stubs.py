"""Rows whose content lies in an object, as reconcile compares them with the object store."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from core.record.database import Session
from core.record.queries import query


@dataclass(frozen=True, slots=True)
class Stub:
    """A row and the object it points at, with the checksum of that."""

    embedding_id: uuid.UUID
    id: str
    key: str
    sha256: str


def page(session: Session, tenant: str, after: uuid.UUID, limit: int) -> list[Stub]:
    """Up to `limit` stubs in the order of points, behind `after`."""
    values = {"tenant": tenant, "after": after, "limit": limit}
    return [Stub(**row) for row in session.execute(query("drift_stubs"), values).fetchall()]


def still(session: Session, tenant: str, stubs: Sequence[Stub]) -> set[str]:
    """Ids of those that point at their objects now."""
    values = {"tenant": tenant, "ids": [one.id for one in stubs], "keys": [one.key for one in stubs]}
    return {row["id"] for row in session.execute(query("drift_stubs_again"), values).fetchall()}


def strangers(session: Session, tenant: str, keys: Mapping[str, str]) -> list[str]:
    """Of objects, by key with the memory's id, those nobody announced and no record points at."""
    values = {"tenant": tenant, "keys": list(keys), "ids": list(keys.values())}
    return [row["key"] for row in session.execute(query("drift_strangers"), values).fetchall()]
