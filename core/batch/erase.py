"""The erase chore: what a person asks to be erased goes from every store, is looked for again, and is receipted.

Begun once, an erasure keeps the list of what it comes to, so that it can be resumed, and run again to confirm. Each
step takes a batch of memories: first the ledger of deletions, so that a restored backup cannot bring them back; then
the record (rows, versions, events; a tombstone stays), with the leases of workers that still hold them taken away;
then every other place. The last step looks everywhere. What may still be
brought back by a worker or a put that began before makes the outcome "pending" until it cannot any more.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from core.errors import Busy, Transient
from core.model.erasure import Item, Place, Request
from core.model.outbox import Lane
from core.model.signing import signed
from core.ports import Locks
from core.record import erasures
from core.record.database import Database
from core.record.fences import LockName, fenced
from core.record.generations import generations
from core.record.ledger import Deletion, Ledger
from core.record.outbox import enqueue
from core.record.vault import KEY_KEPT, Vault

LOCK_KEPT = timedelta(minutes=10)


@dataclass(frozen=True, slots=True, kw_only=True)
class Portion:
    """Where an erasure stands: behind which id it goes on; `looking`: all is removed, and is looked for again."""

    request: Request
    erasure: uuid.UUID
    after: str = ""
    looking: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What one or several steps did; at the end the receipt. `next` is where to go on, None: done or `postponed`."""

    tenant: str
    memories: int = 0
    rows: int = 0
    receipt: dict[str, Any] | None = None
    postponed: str | None = None
    next: Portion | None = None

    def plus(self, other: Report) -> Report:
        """This report with another one's figures, and where that one ended."""
        return replace(other, memories=self.memories + other.memories, rows=self.rows + other.rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class EraseWork:
    """What a step works with. `places` are all stores besides the record. `key`: the operator's, in PEM.

    `tombstones` and `backups`: how long ids stay in tombstones, and memories in backups of the record.
    """

    database: Database
    vault: Vault
    places: Sequence[Place]
    ledger: Ledger
    locks: Locks
    new_id: Callable[[], uuid.UUID]
    key: bytes | None
    tombstones: timedelta
    backups: timedelta
    batch: int = 500
    check: Callable[[], None] = lambda: None


def plan(work: EraseWork, request: Request) -> Portion:
    """Begin an erasure, or take up the one that was begun for the same request. Raises Transient."""
    with work.database.tenant(request.tenant) as session:
        number = erasures.begin(session, request, work.new_id())
    return Portion(request=request, erasure=number)


def step(work: EraseWork, portion: Portion) -> Report:
    """Erase one batch, or look for all of it at the end. Killed anywhere, it is resumed by `plan` and run again.

    A store out of reach, or another run of an erasure of this tenant, ends it early with `postponed`: nothing is
    receipted then. Raises Misconfigured.
    """
    tenant = portion.request.tenant
    try:
        work.check()
        lock = LockName(tenant=tenant, work="erase")
        with fenced(work.database, work.locks, lock, str(work.new_id()), LOCK_KEPT):
            return _look(work, portion) if portion.looking else _erase(work, portion)
    except (Busy, Transient) as problem:
        return Report(tenant=tenant, postponed=problem.message)


def _erase(work: EraseWork, portion: Portion) -> Report:
    tenant = portion.request.tenant
    with work.database.tenant(tenant) as session:
        items = erasures.items(session, tenant, portion.erasure, portion.after, work.batch)
    if not items:
        return _erase_tenant(work, portion) if portion.request.kind == "all" else _looking(portion)
    with work.database.tenant(tenant) as session:
        doomed = erasures.standing(session, tenant, items)
    work.ledger.announce(tenant, [Deletion(*one) for one in doomed])
    with work.database.tenant(tenant) as session:
        numbers = [one.number for one in generations(session, tenant)]
        rows = erasures.erase_rows(session, tenant, portion.erasure, items, numbers)
        if numbers:
            # Whatever a worker brings after all: the drain takes it out again.
            enqueue(session, tenant, list(items), Lane.ONLINE)
    for place in work.places:
        place.remove(tenant, items, everything=False)
    following = replace(portion, after=max(items))
    return Report(tenant=tenant, memories=len(items), rows=rows, next=following)


def _erase_tenant(work: EraseWork, portion: Portion) -> Report:
    """After a tenant's memories all that is left of it: keys first, for what no store can be made to forget."""
    tenant = portion.request.tenant
    with work.database.tenant(tenant) as session:
        if work.vault.destroy(session, tenant):
            erasures.wait(session, tenant, portion.erasure, KEY_KEPT)
        erasures.erase_tenant(session, tenant)
    work.vault.give_up(tenant)
    for place in work.places:
        place.remove(tenant, {}, everything=True)
    return _looking(portion)


def _looking(portion: Portion) -> Report:
    return Report(tenant=portion.request.tenant, next=replace(portion, looking=True, after=""))


def _look(work: EraseWork, portion: Portion) -> Report:
    """Look for everything in every store, and receipt what was found."""
    request, after = portion.request, ""
    found: dict[str, int] = {"record": 0, **{place.name: 0 for place in work.places}}
    looked_for = 0
    while True:
        with work.database.tenant(request.tenant) as session:
            items = erasures.items(session, request.tenant, portion.erasure, after, work.batch)
            found["record"] += sum(erasures.look(session, request.tenant, items).values()) if items else 0
        if not items:
            break
        looked_for, after = looked_for + len(items), max(items)
        _look_at(work, request, items, found)
    if request.kind == "all":
        _look_at(work, request, {}, found)
    with work.database.tenant(request.tenant) as session:
        end = erasures.end(session, request.tenant, portion.erasure, gone=not any(found.values()))
    return Report(tenant=request.tenant, receipt=_receipt(work, portion, looked_for, found, end))


def _look_at(work: EraseWork, request: Request, items: Mapping[str, Item], found: dict[str, int]) -> None:
    for place in work.places:
        found[place.name] += place.look(request.tenant, items, everything=not items)


def _receipt(
    work: EraseWork, portion: Portion, looked_for: int, found: Mapping[str, int], end: erasures.End
) -> dict[str, Any]:
    """What was looked for, store by store, that it is gone or until when it may not be, and what is out of reach."""
    pending = None if end.pending_until <= end.moment else end.pending_until.isoformat()
    gone = not any(found.values())
    receipt = {
        "erasure": str(portion.erasure),
        "tenant": portion.request.tenant,
        "asked": {"kind": portion.request.kind, "value": portion.request.value or None},
        "begun_at": end.begun_at.isoformat(),
        "looked_at": end.moment.isoformat(),
        "outcome": "not gone" if not gone else "gone" if pending is None else "pending",
        "pending_until": pending,
        "memories": looked_for,
        "stores": {
            name: {"looked_for": looked_for, "found": count, "gone": not count} for name, count in found.items()
        },
        "stays": {
            "tombstones": f"id and version of each, until {(end.moment + work.tombstones).isoformat()}",
            "ledger of deletions": "id, version and time, so that no restored backup serves them again",
            "backups of the record": f"not reached; until {(end.begun_at + work.backups).isoformat()}",
            "batch jobs at an embedding provider": "not reached; by the provider's own retention",
        },
    }
    return signed(receipt, work.key)
