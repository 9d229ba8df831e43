"""The record's side of an erasure: what it comes to, the rows that go, and until when something may come back."""

from __future__ import annotations

import hashlib
import hmac
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from core.model.erasure import Item, Request
from core.model.memory import embedding_id
from core.record.database import Session
from core.record.memories import keys
from core.record.queries import query


@dataclass(frozen=True, slots=True)
class End:
    """How an erasure stands, by the database's clock."""

    begun_at: datetime
    pending_until: datetime
    confirmed_at: datetime | None
    moment: datetime


def begin(session: Session, request: Request, erasure: uuid.UUID) -> uuid.UUID:
    """Register what is asked and all that it comes to now; its number, the old one if it was asked before."""
    text = f"{request.kind}:{request.value}"
    asked = hmac.new(keys(session).hash_key, text.encode(), hashlib.sha256).hexdigest()
    values = {"tenant": request.tenant, "id": erasure, "kind": request.kind, "asked": asked}
    row = session.execute(query("erase_begin"), values).fetchone()
    number: uuid.UUID = erasure if row is None else row["id"]
    point = embedding_id(request.tenant, request.value)
    named = {"tenant": request.tenant, "erasure": number, "kind": request.kind, "value": request.value, "point": point}
    session.execute(query("erase_collect"), named)
    return number


def items(session: Session, tenant: str, erasure: uuid.UUID, after: str, limit: int) -> dict[str, Item]:
    """Memories an erasure comes to, in the order of ids behind `after`."""
    values = {"tenant": tenant, "erasure": erasure, "after": after, "limit": limit}
    rows = session.execute(query("erase_items"), values).fetchall()
    return {row["memory_id"]: Item(row["embedding_id"], row["version"]) for row in rows}


def standing(session: Session, tenant: str, memories: Mapping[str, Item]) -> list[tuple[str, int, datetime]]:
    """Rows that are meant: id, the version their deletion will have, and now."""
    rows = session.execute(query("erase_standing"), _named(tenant, memories)).fetchall()
    return [(row["id"], int(row["version"]), row["at"]) for row in rows]


def erase_rows(
    session: Session, tenant: str, erasure: uuid.UUID, memories: Mapping[str, Item], generations: Sequence[int]
) -> int:
    """Remove all that the record says of memories; how many rows went. Notes until when something may come back."""
    values = {**_named(tenant, memories), "generations": list(generations)}
    gone = len(session.execute(query("erase_rows"), values).fetchall())
    session.execute(query("erase_pending"), {**values, "erasure": erasure})
    session.execute(query("erase_release"), values)
    return gone


def look(session: Session, tenant: str, memories: Mapping[str, Item]) -> dict[str, int]:
    """What the record still says of memories: rows, old versions, events."""
    row = session.execute(query("erase_look"), _named(tenant, memories)).fetchone()
    return {} if row is None else {name: int(count) for name, count in row.items()}


def wait(session: Session, tenant: str, erasure: uuid.UUID, span: timedelta) -> None:
    """An erasure is pending for at least so long from now."""
    session.execute(query("erase_wait"), {"tenant": tenant, "erasure": erasure, "span": span})


def erase_tenant(session: Session, tenant: str) -> None:
    """Remove what a tenant's record holds besides memories, tombstones and generations."""
    session.execute(query("erase_tenant"), {"tenant": tenant})


def end(session: Session, tenant: str, erasure: uuid.UUID, *, gone: bool) -> End:
    """Note the outcome of a look at every store: confirmed only if all is gone and nothing can come back."""
    row = session.execute(query("erase_end"), {"tenant": tenant, "erasure": erasure, "gone": gone}).fetchone()
    assert row is not None  # noqa: S101  `begin` made it
    return End(**row)


def _named(tenant: str, memories: Mapping[str, Item]) -> dict[str, object]:
    named = dict(sorted(memories.items()))
    return {
        "tenant": tenant,
        "ids": list(named),
        "versions": [item.version for item in named.values()],
        "points": [item.point for item in named.values()],
    }
