"""Deleting in bounded batches: what is at its end, what a caller no longer wants, and at last the rows themselves."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from core.errors import Refused
from core.model.policy import Policies
from core.record.database import Session
from core.record.lifecycle import lives_of
from core.record.queries import query

BEGINNING = datetime(1, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Deleted:
    """A deleted memory whose row is still there."""

    id: str
    version: int
    embedding_id: uuid.UUID
    deleted_at: datetime


def expire(session: Session, tenant: str, policies: Policies, limit: int) -> int:
    """Delete up to `limit` memories whose own end, or whose type's time to live, has come; how many."""
    gone = len(session.execute(query("reap_expire"), {"tenant": tenant, "limit": limit}).fetchall())
    lives = [policy.time_to_live for policy in policies.all_of(tenant).values() if policy.time_to_live is not None]
    if gone < limit and lives:
        values = {"tenant": tenant, "limit": limit - gone, "least": min(lives), **lives_of(policies, tenant)}
        gone += len(session.execute(query("reap_aged"), values).fetchall())
    return gone


def delete_older(
    session: Session, tenant: str, age: timedelta, limit: int, *, of_session: str | None, of_type: str | None
) -> int:
    """Delete up to `limit` memories created longer ago than `age`; how many. Kept ones stay. Raises Refused."""
    if age <= timedelta(0):
        raise Refused("say how old: a time of more than nothing", where="older_than")
    values = {"tenant": tenant, "age": age, "limit": limit, "session": of_session, "type": of_type}
    return len(session.execute(query("reap_older"), values).fetchall())


def purgeable(session: Session, tenant: str, wait: timedelta, after: tuple[datetime, str], limit: int) -> list[Deleted]:
    """Memories deleted so long ago, oldest first, behind `after` (time of deletion, id)."""
    values = {"tenant": tenant, "wait": wait, "after": after[0], "after_id": after[1], "limit": limit}
    return [Deleted(**row) for row in session.execute(query("reap_purgeable"), values).fetchall()]


def purge(session: Session, tenant: str, versions: Mapping[str, int], generations: Sequence[int]) -> set[str]:
    """Remove the rows of deleted memories still at these versions, for good; the ids of those that went.

    One stays while a worker holds work of it, or an object of it is announced. `generations`: all there are.
    """
    values = {
        "tenant": tenant,
        "ids": list(versions),
        "versions": list(versions.values()),
        "generations": list(generations),
    }
    return {row["id"] for row in session.execute(query("reap_purge"), values).fetchall()}


def trim(session: Session, tenant: str, what: str, kept: timedelta, limit: int) -> int:
    """Remove up to `limit` of `versions`, `events` or `tombstones` that are older than they are kept; how many."""
    return session.execute(query(f"reap_{what}"), {"tenant": tenant, "kept": kept, "limit": limit}).rowcount
