"""The relay chore: events of the record to a stream per tenant, at least once, for each memory in the order of commits.

`plan` lists the tenants, `step` tells a bounded number of one tenant's events. An event is told only when nothing can
come in before it any more; how far a tenant has come is noted after that, so that what is told twice is told in the
same order.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta

from core.errors import Busy, LeaseLost
from core.model.event import EventLag
from core.ports import EventStream, Locks
from core.record.database import Database
from core.record.fences import LockName, fenced
from core.record.relay import Relay

WORK = "relay"
AT_ONCE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayWork:
    """What a step works with. `stream` None: there is nowhere to tell events. `keep`: how long its lock lasts."""

    database: Database
    stream: EventStream | None
    locks: Locks
    new_id: Callable[[], uuid.UUID]
    keep: timedelta
    check: Callable[[], None] = lambda: None


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """How many events of a tenant were told. `skipped` says why none could be; `done`: none was left that is safe."""

    tenant: str
    told: int = 0
    skipped: str | None = None
    done: bool = False


def plan(lags: Iterable[EventLag]) -> list[str]:
    """The tenants with events to tell, those that wait longest first."""
    waiting = [one for one in lags if one.waiting and one.oldest is not None]
    return [one.tenant for one in sorted(waiting, key=lambda one: (one.oldest, one.tenant))]


def step(work: RelayWork, tenant: str, limit: int) -> Report:
    """Tell up to `limit` events. Killed anywhere, the next tells again what may have been told.

    Raises Transient when the record or the stream is out of reach.
    """
    if work.stream is None:
        return Report(tenant=tenant, skipped="there is no Redis to tell events to", done=True)
    relay, told = Relay(work.database), 0
    name = LockName(tenant=tenant, work=WORK)
    try:
        with fenced(work.database, work.locks, name, work.new_id().hex, work.keep) as held:
            relay.fence()
            safe = relay.fence()
            while told < limit:
                work.check()
                events = relay.next(tenant, safe, min(AT_ONCE, limit - told))
                if not events:
                    return Report(tenant=tenant, told=told, done=True)
                held.renew()
                work.stream.publish(tenant, events)
                relay.done(tenant, events[-1].seq)
                told += len(events)
    except LeaseLost:
        return Report(tenant=tenant, told=told, skipped="its events are told elsewhere", done=True)
    except Busy as problem:
        if problem.details.get("work") != WORK:
            raise
        return Report(tenant=tenant, skipped="its events are told elsewhere", done=True)
    return Report(tenant=tenant, told=told)
