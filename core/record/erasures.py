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


@dataclass(frozen=True, slots=True)
class Begun:
    """An erasure that is begun: behind which id to collect; `collected`: it was done once; `ended`: only to confirm."""

    id: uuid.UUID
    collect_after: str
    ended: bool
    collected: bool


def begin(session: Session, request: Request, erasure: uuid.UUID) -> Begun:
    """Register what is asked; the old erasure if it was asked before and never confirmed since."""
    text = f"{request.kind}:{request.value}"
    asked = hmac.new(keys(session).hash_key, text.encode(), hashlib.sha256).hexdigest()
    values = {"tenant": request.tenant, "id": erasure, "kind": request.kind, "asked": asked}
    row = session.execute(query("erase_begin"), values).fetchone()
    assert row is not None  # noqa: S101  RETURNING of an upsert
    begun = Begun(**row)
    if request.kind == "id" and not begun.ended:
        point = embedding_id(request.tenant, request.value)
        session.execute(query("erase_name"), {**_asked(request, begun.id), "point": point})
    return begun


def collect(session: Session, request: Request, erasure: uuid.UUID, after: str, limit: int) -> list[str]:
    """Take in the next page, behind `after`, of what the record holds of what is asked; its ids, in order.

    A page that is not full is the last one.
    """
    values = {**_asked(request, erasure), "after": after, "limit": limit}
    found = [row["id"] for row in session.execute(query(f"erase_page_{request.kind}"), values).fetchall()]
    session.execute(query("erase_collect"), {"tenant": request.tenant, "erasure": erasure, "ids": found})
    done = len(found) < limit
    noted = {"after": "" if done else found[-1], "collected": done}
    session.execute(query("erase_collected"), {"tenant": request.tenant, "erasure": erasure, **noted})
    return found


def items(
    session: Session, request: Request, erasure: uuid.UUID, after: str, limit: int, *, left: bool
) -> dict[str, Item]:
    """Memories an erasure comes to, in the order of ids behind `after`; `left`: not removed in this round."""
    values = {**_asked(request, erasure), "after": after, "limit": limit, "left": left}
    rows = session.execute(query("erase_items"), values).fetchall()
    return {row["memory_id"]: Item(row["embedding_id"], row["version"]) for row in rows}


def raise_items(session: Session, request: Request, erasure: uuid.UUID, ids: Sequence[str]) -> set[str]:
    """Bring items to the versions of rows that are meant, whatever raised them; the ids of which there is a row."""
    rows = session.execute(query("erase_raise"), {**_asked(request, erasure), "ids": list(ids)}).fetchall()
    return {row["memory_id"] for row in rows}


def removed(session: Session, tenant: str, erasure: uuid.UUID, ids: Sequence[str]) -> None:
    """Items are out of every store."""
    session.execute(query("erase_removed"), {"tenant": tenant, "erasure": erasure, "ids": list(ids)})


def standing(session: Session, tenant: str, memories: Mapping[str, Item]) -> list[tuple[str, int, datetime]]:
    """Rows that are meant: id, the version their deletion will have, and now."""
    rows = session.execute(query("erase_standing"), _named(tenant, memories)).fetchall()
    return [(row["id"], int(row["version"]), row["at"]) for row in rows]


def erase_rows(
    session: Session, tenant: str, erasure: uuid.UUID, memories: Mapping[str, Item], generations: Sequence[int]
) -> int:
    """Remove all that the record says of memories; how many rows went. Notes until when something may come back."""
    values = {**_named(tenant, memories), "generations": list(generations), "erasure": erasure}
    gone = len(session.execute(query("erase_rows"), values).fetchall())
    session.execute(query("erase_pending"), values)
    session.execute(query("erase_release"), values)
    return gone


def look(session: Session, tenant: str, memories: Mapping[str, Item]) -> dict[str, int]:
    """What the record still says of memories: rows, old versions, events."""
    row = session.execute(query("erase_look"), _named(tenant, memories)).fetchone()
    return {} if row is None else {name: int(count) for name, count in row.items()}


def wait(session: Session, tenant: str, erasure: uuid.UUID, span: timedelta) -> None:
    """An erasure is pending for at least so long from now."""
    session.execute(query("erase_wait"), {"tenant": tenant, "erasure": erasure, "span": span})


def bare(session: Session, tenant: str) -> bool:
    """Whether a tenant has no memory left. Nobody writes one until the transaction ends; waits for who just does."""
    session.execute(query("generation_barrier"), {"tenant": tenant})
    row = session.execute(query("erase_bare"), {"tenant": tenant}).fetchone()
    return row is not None and bool(row["bare"])


def erase_tenant(session: Session, tenant: str, limit: int) -> int:
    """Remove a batch of what a tenant's record holds besides memories, tombstones and generations; how much went."""
    row = session.execute(query("erase_tenant"), {"tenant": tenant, "limit": limit}).fetchone()
    return 0 if row is None else int(row["gone"])


def end(session: Session, tenant: str, erasure: uuid.UUID, *, gone: bool) -> End:
    """Note the outcome of a look at every store: confirmed only if all is gone and nothing can come back."""
    row = session.execute(query("erase_end"), {"tenant": tenant, "erasure": erasure, "gone": gone}).fetchone()
    assert row is not None  # noqa: S101  `begin` made it
    return End(**row)


def _asked(request: Request, erasure: uuid.UUID) -> dict[str, object]:
    return {"tenant": request.tenant, "erasure": erasure, "kind": request.kind, "value": request.value}


def _named(tenant: str, memories: Mapping[str, Item]) -> dict[str, object]:
    named = dict(sorted(memories.items()))
    return {
        "tenant": tenant,
        "ids": list(named),
        "versions": [item.version for item in named.values()],
        "points": [item.point for item in named.values()],
    }
