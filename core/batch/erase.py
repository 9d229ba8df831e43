"""The erase chore: what a person asks to be erased goes from every store, is looked for again, and is receipted.

Begun once, an erasure keeps the list of what it comes to, so that it can be resumed, and run again to confirm. It is
collected page by page. Each step takes a batch of memories: first the ledger of deletions, so that a restored backup
cannot bring them back; then the record (rows, versions, events; a tombstone stays), with the leases of workers that
still hold them taken away; then every other place. Then it is collected again: what was archived, restored, deleted
or written meanwhile is erased as well, until nothing is left. The last steps look everywhere. What may still be
brought back by a worker or a put that began before makes the outcome "pending" until it cannot any more; asked again
after its end, an erasure removes what it has listed and looks again, and takes in nothing new until it is confirmed.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from enum import StrEnum
from typing import Any

from core.errors import Busy, Transient
from core.model.erasure import Place, Request
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
# So often what was written meanwhile is erased as well; then somebody has to stop writing it first.
MOST_ROUNDS = 20


class Phase(StrEnum):
    """What a step does; in this order, and from the second collecting on again while there is something."""

    COLLECT = "collect"
    ERASE = "erase"
    TENANT = "tenant"
    LOOK = "look"


@dataclass(frozen=True, slots=True, kw_only=True)
class Portion:
    """Where an erasure stands: a phase, and behind which id it goes on.

    `ended`: it was at its end before, and is only confirmed. `round`: how often it was collected. `seen`: how much
    this collecting, or looking, has come to; `found`: how much of it the places still hold. `bare`: of the tenant
    there was no memory left, and everything was removed.
    """

    request: Request
    erasure: uuid.UUID
    phase: Phase = Phase.ERASE
    ended: bool = False
    after: str = ""
    round: int = 0
    seen: int = 0
    bare: bool = False
    found: Mapping[str, int] = field(default_factory=dict)

    def then(self, phase: Phase) -> Portion:
        """The beginning of a phase."""
        return replace(self, phase=phase, after="", seen=0, found={}, bare=False)


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
        begun = erasures.begin(session, request, work.new_id())
    phase = Phase.ERASE if begun.collected else Phase.COLLECT
    after = "" if begun.collected else begun.collect_after
    return Portion(request=request, erasure=begun.id, ended=begun.ended, phase=phase, after=after)


def step(work: EraseWork, portion: Portion) -> Report:
    """Do one batch of a phase. Killed anywhere, it is resumed by `plan` and run again.

    A store out of reach, or another run of an erasure of this tenant, ends it early with `postponed`: nothing is
    receipted then. Raises Misconfigured.
    """
    tenant = portion.request.tenant
    try:
        work.check()
        lock = LockName(tenant=tenant, work="erase")
        with fenced(work.database, work.locks, lock, str(work.new_id()), LOCK_KEPT):
            return _PHASES[portion.phase](work, portion)
    except (Busy, Transient) as problem:
        return Report(tenant=tenant, postponed=problem.message)


def _collect(work: EraseWork, portion: Portion) -> Report:
    request = portion.request
    with work.database.tenant(request.tenant) as session:
        ids = erasures.collect(session, request, portion.erasure, portion.after, work.batch)
    seen = portion.seen + len(ids)
    if len(ids) == work.batch:
        return _go_on(replace(portion, after=ids[-1], seen=seen))
    if portion.round == 0 or seen:
        return _go_on(portion.then(Phase.ERASE))
    return _go_on(portion.then(_last_phase(portion)))


def _erase(work: EraseWork, portion: Portion) -> Report:
    request, tenant = portion.request, portion.request.tenant
    with work.database.tenant(tenant) as session:
        named = erasures.items(session, request, portion.erasure, portion.after, work.batch, left=True)
        erasures.raise_items(session, request, portion.erasure, list(named))
        items = erasures.items(session, request, portion.erasure, portion.after, work.batch, left=True)
    if not items:
        return _go_on(portion.then(_last_phase(portion)) if portion.ended else _again(portion))
    # Events of deletions go with the rows: those the ledger has not got are told to it first.
    work.ledger.ship([tenant])
    with work.database.tenant(tenant) as session:
        doomed = erasures.standing(session, tenant, items)
    work.ledger.announce(tenant, [Deletion(*one) for one in doomed])
    with work.database.tenant(tenant) as session:
        numbers = [one.number for one in generations(session, tenant)]
        rows = erasures.erase_rows(session, tenant, portion.erasure, items, numbers)
        if numbers:
            # Whatever a worker brings after all: the drain takes it out again.
            enqueue(session, tenant, list(items), Lane.ONLINE)
    waits = timedelta(0)
    for place in work.places:
        if not (place.at_once and request.kind == "all" and not portion.ended):
            unseen = place.remove(tenant, items, everything=False)
            waits = waits if unseen is None else max(waits, unseen)
    with work.database.tenant(tenant) as session:
        if waits:
            erasures.wait(session, tenant, portion.erasure, waits)
        erasures.removed(session, tenant, portion.erasure, list(items))
    return Report(tenant=tenant, memories=len(items), rows=rows, next=replace(portion, after=max(items)))


def _erase_tenant(work: EraseWork, portion: Portion) -> Report:
    """After a tenant's memories all that is left of it: keys first, for what no store can be made to forget.

    Only if nobody has written a memory meanwhile. What is written from here on keeps its key, points and objects.
    """
    tenant = portion.request.tenant
    work.ledger.ship([tenant])
    with work.database.tenant(tenant) as session:
        keys = work.vault.hold_all(session, tenant)  # first, as whoever writes something sealed does
        bare = erasures.bare(session, tenant)
        if bare and work.vault.destroy(session, tenant, keys):
            erasures.wait(session, tenant, portion.erasure, KEY_KEPT)
    if not bare:
        return _go_on(portion.then(Phase.LOOK) if portion.ended else _again(portion))
    with work.database.tenant(tenant) as session:
        if erasures.erase_tenant(session, tenant, work.batch):
            return _go_on(portion)
        keyless = not work.vault.hold_all(session, tenant)
    if keyless:
        work.vault.give_up(tenant)
    for place in work.places:
        place.remove(tenant, {}, everything=True)
    return _go_on(replace(portion.then(Phase.LOOK), bare=True))


def _look(work: EraseWork, portion: Portion) -> Report:
    """Look for one batch in every store; at the end receipt what was found. What has a row again is erased again."""
    request = portion.request
    with work.database.tenant(request.tenant) as session:
        items = erasures.items(session, request, portion.erasure, portion.after, work.batch, left=False)
        standing = erasures.raise_items(session, request, portion.erasure, list(items))
        held = sum(erasures.look(session, request.tenant, items).values()) if items and not standing else 0
    if standing:
        return _go_on(_again(portion))
    found = {"record": held, **{place.name: 0 for place in work.places}}
    for place in work.places:
        if (items and not (place.at_once and portion.bare)) or (not items and portion.bare):
            found[place.name] = place.look(request.tenant, items, everything=not items)
    found = {name: count + portion.found.get(name, 0) for name, count in found.items()}
    if items:
        seen = portion.seen + len(items)
        return _go_on(replace(portion, after=max(items), seen=seen, found=found))
    with work.database.tenant(request.tenant) as session:
        end = erasures.end(session, request.tenant, portion.erasure, gone=not any(found.values()))
    return Report(tenant=request.tenant, receipt=_receipt(work, portion, portion.seen, found, end))


def _again(portion: Portion) -> Portion:
    """Collect once more. Raises Busy when that was done too often."""
    if portion.round >= MOST_ROUNDS:
        raise Busy("what is to be erased is written again and again: stop that, then run the erasure again")
    following = Phase.ERASE if portion.ended else Phase.COLLECT
    return replace(portion.then(following), round=portion.round + 1)


def _last_phase(portion: Portion) -> Phase:
    return Phase.TENANT if portion.request.kind == "all" else Phase.LOOK


def _go_on(portion: Portion) -> Report:
    return Report(tenant=portion.request.tenant, next=portion)


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


_PHASES: dict[Phase, Callable[[EraseWork, Portion], Report]] = {
    Phase.COLLECT: _collect,
    Phase.ERASE: _erase,
    Phase.TENANT: _erase_tenant,
    Phase.LOOK: _look,
}
