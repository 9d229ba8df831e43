"""The throttle of one process: what is used without Redis, and while Redis is gone.

The algorithm, the same here and in the script of `redis_throttle`:

- **Windows.** Requests and tokens are counted in slices, a hundred to the window, until their slice has left it whole:
  a sliding window log whose size does not grow with the rate. No window ever holds more than the limit, whatever the
  sizes, and 99 % of it can be used. A request larger than the limit passes alone, and is counted for so much longer.
- **Pace.** Bulk work is also paced by GCRA (ITU-T I.371) at 1.1 times the limit with a burst of a twentieth of the
  window. Else it would use a minute up in seconds, and whoever came then, however rarely, would wait for the rest.
- **Slots** of requests at once run out by themselves. The wait told for one is estimated from how long they were held.
- **Line.** Who has to wait leaves a mark, and what those before him wait for is set aside for them: each is told
  another moment, and normally none asks twice. A mark outlives its moment by half the wait (a twelfth of
  the window at the most) and a sixtieth of the window; who gives up before takes it away.
- **Turns.** The line is ordered by start-time fair queueing (Goyal, Vin, Cheng: SIGCOMM 1996): what a tenant is
  granted, in shares of the quota, puts it back in the line; one that asked for nothing lately is level with the one
  served last. However many marks one tenant has, another's first goes before all but the first of them.
- **Queries** have their part of rates and slots to themselves, share the rest, and go before bulk work.
"""

from __future__ import annotations

import math
import threading
import time
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import timedelta

from core.model.quota import Grant, Lane, Quota, Room, Wait

WINDOW = timedelta(minutes=1)
LEASE = timedelta(minutes=2)  # longer than any request takes
SLICES = 100
PACE = 1.1
BURST = 1 / 20  # of the window
GRACE = 1 / 60  # of the window
LATEST = 1 / 12  # of the window
LONGEST_COOL_DOWN = 86_400.0  # seconds
NEAR = 1e-6  # limits need not be whole numbers


@dataclass(slots=True)
class _Slot:
    since: float
    until: float
    bulk: bool
    tokens: int
    slice: int = 0
    step: float = 0.0  # seconds the pace takes for a token


@dataclass(slots=True)
class _Mark:
    order: int
    lane: Lane
    tenant: str
    costs: tuple[float, float] = (0.0, 0.0)
    part: float = 0.0
    tag: float = 0.0
    ready: float = 0.0
    until: float = math.inf


@dataclass(slots=True)
class _Books:
    """What is known of one provider key."""

    held: float  # seconds a slot was held lately
    # Of requests and of tokens: slice -> what all were granted in it, and bulk work alone.
    used: tuple[dict[int, list[float]], dict[int, list[float]]] = field(default_factory=lambda: ({}, {}))
    paced: list[float] = field(default_factory=lambda: [0.0, 0.0])
    slots: dict[str, _Slot] = field(default_factory=dict)
    marks: dict[str, _Mark] = field(default_factory=dict)
    ended: dict[str, float] = field(default_factory=dict)  # tenant -> tag at which its last grant ends
    served: float = 0.0  # tag of the last grant
    count: int = 0
    cool_until: float = -math.inf


class LocalThrottle:
    """Keeps `share` of a quota within this process. Thread-safe; never blocks, never raises for what it is asked."""

    def __init__(
        self,
        *,
        share: float = 1.0,
        window: timedelta = WINDOW,
        lease: timedelta = LEASE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._share = share
        self._window = window.total_seconds()
        self._lease = lease.total_seconds()
        self._clock = clock
        self._books: dict[str, _Books] = {}
        self._lock = threading.Lock()

    def take(
        self, key: str, tokens: int, lane: Lane, quota: Quota, owner: str, tenant: str | None = None
    ) -> Grant | Wait:
        """Leave for one request of about `tokens`, or how long to wait: see the port."""
        rooms = quota.rooms(lane, self._share)
        with self._lock:
            now, books = self._clock(), self._books_of(key)
            if books.cool_until > now:
                return Wait(books.cool_until - now + NEAR)
            self._forget(books, now)
            mark = books.marks.get(owner)
            if mark is None or mark.lane != lane:
                books.count += 1
                mark = books.marks[owner] = _Mark(books.count, lane, tenant or "")
            mark.tenant, mark.costs = tenant or "", (1.0, float(tokens))
            mark.part = max(
                [cost / own for cost, (_, own) in zip((*mark.costs, 1.0), rooms, strict=True) if own] or [1]
            )
            ready = self._ready(books, mark, rooms, now)
            if ready > now + NEAR:
                late = min((ready - now) / 2, self._window * LATEST) + self._window * GRACE
                mark.ready, mark.until = ready, ready + late
                return Wait(ready - now + NEAR)
            del books.marks[owner]
            return self._grant(books, mark, rooms, now)

    def leave(self, key: str, owner: str) -> None:
        """This owner waits no longer: what was set aside for it is free. Not waiting: nothing."""
        with self._lock:
            self._books_of(key).marks.pop(owner, None)

    def give_back(self, key: str, grant: Grant, used_tokens: int | None = None) -> None:
        """Free a grant's slot; `used_tokens` takes the place of the estimate. Given back already: nothing."""
        with self._lock:
            books, now = self._books_of(key), self._clock()
            self._forget(books, now)
            slot = books.slots.pop(grant.id, None)
            if slot is None:
                return
            books.held += (now - slot.since - books.held) / 5
            counted = books.used[1].get(slot.slice)
            if used_tokens is not None and counted is not None:
                more = used_tokens - slot.tokens
                counted[0], counted[1] = counted[0] + more, counted[1] + more * slot.bulk
                books.paced[1] += more * slot.step

    def cool_down(self, key: str, seconds: float) -> None:
        """Nobody is granted anything on this key for so long from now; a longer time that runs already stays."""
        with self._lock:
            books = self._books_of(key)
            books.cool_until = max(books.cool_until, self._clock() + min(seconds, LONGEST_COOL_DOWN))

    def cooling(self, keys: Iterable[str]) -> frozenset[str]:
        """Those of `keys` that cool down now."""
        return frozenset(key for key in keys if self.cool_for(key) > 0)

    def cool_for(self, key: str) -> float:
        """Seconds a key still cools down; 0: it does not."""
        with self._lock:
            books = self._books.get(key)
            return 0.0 if books is None else max(0.0, books.cool_until - self._clock())

    def close(self) -> None:
        """Nothing is held."""

    def _books_of(self, key: str) -> _Books:
        return self._books.setdefault(key, _Books(held=self._window * GRACE))

    def _slice(self, now: float) -> int:
        return math.floor(now * SLICES / self._window)

    def _end(self, index: int) -> float:
        return (index + SLICES + 1) * self._window / SLICES

    def _forget(self, books: _Books, now: float) -> None:
        oldest = self._slice(now) - SLICES
        for used in books.used:
            for index in [index for index in used if index < oldest]:
                del used[index]
        books.slots = {name: slot for name, slot in books.slots.items() if slot.until > now}
        books.marks = {owner: mark for owner, mark in books.marks.items() if mark.until > now}

    def _ready(self, books: _Books, mark: _Mark, rooms: tuple[Room, Room, Room], now: float) -> float:
        """When this mark can be served, after those before it."""
        before = _before(books, mark)
        lane_before = [other for other in before if other.lane == mark.lane]
        bulk, ready = mark.lane == "bulk", now
        for kind, (whole, own) in enumerate(rooms[:2]):
            if not own:
                continue
            for column, limit, others in ((0, whole, before), (1, own, lane_before))[: 1 + bulk]:
                freed = [(self._end(index), counted[column]) for index, counted in books.used[kind].items()]
                later = self._window * (1 + 1 / SLICES)  # they are counted themselves, once they are served
                freed += [(max(other.ready, now) + later, min(other.costs[kind], own)) for other in others]
                ready = max(ready, _room_at(freed, min(mark.costs[kind], own), limit, now))
            if bulk:
                step = self._window / PACE / own
                paced = max(books.paced[kind], now) + sum(other.costs[kind] for other in lane_before) * step
                ready = max(ready, paced - self._window * BURST)
        whole, own = rooms[2]
        for only_bulk, limit, others in ((False, whole, before), (True, own, lane_before))[: 1 + bulk]:
            since = [slot.since for slot in books.slots.values() if slot.bulk or not only_bulk]
            ready = max(ready, _slot_at(since, others, limit, books.held, now) if limit else now)
        return ready

    def _grant(self, books: _Books, mark: _Mark, rooms: tuple[Room, Room, Room], now: float) -> Grant:
        bulk = mark.lane == "bulk"
        slot = _Slot(now, now + self._lease, bulk, int(mark.costs[1]))
        for kind, (_, own) in enumerate(rooms[:2]):
            if not own:
                continue
            cost = mark.costs[kind]
            slot.slice = self._slice(now) + math.ceil(max(0.0, cost / own - 1) * SLICES)
            counted = books.used[kind].setdefault(slot.slice, [0.0, 0.0])
            counted[0] += cost
            if bulk:
                counted[1] += cost
                slot.step = self._window / PACE / own
                books.paced[kind] = max(books.paced[kind], now) + cost * slot.step
        books.served = max(books.served, mark.tag)
        ended = {**books.ended, mark.tenant: mark.tag + mark.part}
        books.ended = {tenant: tag for tenant, tag in ended.items() if tag > books.served}
        grant = Grant(uuid.uuid4().hex)
        books.slots[grant.id] = slot
        return grant


def _before(books: _Books, mark: _Mark) -> list[_Mark]:
    """The marks that are served before this one; tags are set anew, since those before may have gone."""
    tags: dict[str, float] = {}
    for other in sorted(books.marks.values(), key=lambda one: one.order):
        if other.lane == mark.lane:
            other.tag = tags.get(other.tenant, max(books.served, books.ended.get(other.tenant, 0.0)))
            tags[other.tenant] = other.tag + other.part
    place = (mark.lane == "bulk", mark.tag, mark.order)
    return [other for other in books.marks.values() if (other.lane == "bulk", other.tag, other.order) < place]


def _room_at(freed: list[tuple[float, float]], cost: float, limit: float, now: float) -> float:
    """When `cost` fits a limit that now holds all these amounts, each until its moment."""
    over, at = sum(amount for _, amount in freed) + cost - limit, now
    for moment, amount in sorted(freed):
        if over > NEAR:
            over, at = over - amount, moment
    return at


def _slot_at(since: list[float], before: list[_Mark], limit: float, held: float, now: float) -> float:
    """When a slot is likely to be free. Those before are let go first only once their moment has come."""
    if len(since) + sum(other.ready <= now for other in before) < limit:
        return now
    turn, ends = int(len(since) + len(before) - limit), sorted(since)
    if not ends:
        return now + held
    at = ends[turn % len(ends)] + held * (1 + turn // len(ends))
    return max(at, now + held / 8, now + 0.002)
