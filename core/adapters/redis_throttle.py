"""The throttle that all workers share through Redis or Valkey. The algorithm is told in `local_throttle`.

A decision about requests, tokens, slots, line and cool-down is one script on the server, by the server's
clock. Libraries were compared before it was written; none decides these in one step:

- `limits` 5.8: one limit a call, so the request is counted when the tokens are refused; no slots; its moving window
  keeps an entry a token; the callers' clocks.
- `pyrate-limiter` 4.5: several rates over one weight, so requests and tokens are two calls; an entry a token in its
  log; the callers' clocks; no slots.
- `throttled-py` 3.5: GCRA and others in Lua, one limit and key a call; no slots.
- `steindamm` 0.11 (`self-limiters` and `redis-rate-limiters` before it): token bucket by the server's clock, and
  a semaphore, as separate calls; whole intervals are booked ahead and cannot be corrected or given back.

None has a cool-down, a part kept for one lane, tenants that take turns, or a share to go on with while Redis is gone.

The books of a provider key are one value of some kilobytes, packed with cmsgpack (cjson rounds), and run out.
"""

from __future__ import annotations

import math
import time
import uuid
from collections.abc import Callable, Iterable
from datetime import timedelta

from core.adapters import local_throttle as local
from core.adapters.local_throttle import LocalThrottle
from core.adapters.redis_server import RedisServer
from core.model.quota import Grant, Lane, Quota, Wait

SHARED = "shared:"  # begins the ids of grants that the server knows

# KEYS: books, cool-down. ARGV: window and lease in seconds, id of the grant.
_BOOKS = f"""
local SLICES, PACE, BURST = {local.SLICES}, {local.PACE!r}, {local.BURST!r}
local GRACE, LATEST, NEAR = {local.GRACE!r}, {local.LATEST!r}, {local.NEAR!r}
local max, min, floor, ceil, sort = math.max, math.min, math.floor, math.ceil, table.sort
local window, lease, grant = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3]
local clock = redis.call('TIME')
local now = clock[1] + clock[2] / 1000000
local current = floor(now * SLICES / window)
local packed = redis.call('GET', KEYS[1])
local books = packed and cmsgpack.unpack(packed)
    or {{used = {{{{}}, {{}}}}, paced = {{0, 0}}, slots = {{}}, marks = {{}}, ended = {{}}, served = 0, count = 0,
        held = window / 60}}
for kind = 1, 2 do
    for index in pairs(books.used[kind]) do
        if tonumber(index) < current - SLICES then books.used[kind][index] = nil end
    end
end
for _, kept in ipairs({{books.slots, books.marks}}) do
    for name, one in pairs(kept) do
        if one['until'] <= now then kept[name] = nil end
    end
end
local function save()
    local keep, last = max(2 * window, lease), current
    for kind = 1, 2 do
        for index in pairs(books.used[kind]) do last = max(last, tonumber(index)) end
        keep = max(keep, books.paced[kind] - now, (last + SLICES + 2) * window / SLICES - now)
    end
    redis.call('SET', KEYS[1], cmsgpack.pack(books), 'PX', ceil(keep * 1000))
end
"""

# ARGV goes on: lane, tenant, owner, tokens, then for requests, tokens and slots the room of all and of the lane.
# Says 0 for a grant, else microseconds to wait.
_TAKE = (
    _BOOKS
    + """
local cooling = redis.call('PTTL', KEYS[2])
if cooling >= 0 then return (cooling + 1) * 1000 end
local lane, tenant, owner = ARGV[4], ARGV[5], ARGV[6]
local bulk = lane == 'bulk'
local costs = {1, tonumber(ARGV[7]), 1}
local whole, own = {}, {}
for kind = 1, 3 do
    whole[kind], own[kind] = tonumber(ARGV[6 + 2 * kind]), tonumber(ARGV[7 + 2 * kind])
end

local mark = books.marks[owner]
if not mark or mark.lane ~= lane then
    books.count = books.count + 1
    mark = {order = books.count, ready = 0}
    books.marks[owner] = mark
end
mark.lane, mark.tenant, mark.costs, mark.part = lane, tenant, costs, nil
for kind = 1, 3 do if own[kind] > 0 then mark.part = max(mark.part or 0, costs[kind] / own[kind]) end end
mark.part = mark.part or 1

-- Who is served before: tags are set anew, since those before may have gone.
local line, tags, before, lane_before = {}, {}, {}, {}
for _, other in pairs(books.marks) do
    if other.lane == lane then line[#line + 1] = other elseif bulk then before[#before + 1] = other end
end
sort(line, function(a, b) return a.order < b.order end)
for _, other in ipairs(line) do
    other.tag = tags[other.tenant] or max(books.served, books.ended[other.tenant] or 0)
    tags[other.tenant] = other.tag + other.part
end
for _, other in ipairs(line) do
    if other.tag < mark.tag or (other.tag == mark.tag and other.order < mark.order) then
        before[#before + 1], lane_before[#lane_before + 1] = other, other
    end
end

local function room_at(kind, column, others, limit)
    local over, freed = min(costs[kind], own[kind]) - limit, {}
    for index, counted in pairs(books.used[kind]) do
        freed[#freed + 1] = {(index + SLICES + 1) * window / SLICES, counted[column]}
    end
    for _, other in ipairs(others) do
        freed[#freed + 1] = {max(other.ready, now) + window * (1 + 1 / SLICES), min(other.costs[kind], own[kind])}
    end
    for _, one in ipairs(freed) do over = over + one[2] end
    if over <= NEAR then return now end
    sort(freed, function(a, b) return a[1] < b[1] end)
    local at = now
    for _, one in ipairs(freed) do
        if over > NEAR then over, at = over - one[2], one[1] end
    end
    return at
end
local function slot_at(only_bulk, others, limit)
    local ends, due = {}, 0
    for _, slot in pairs(books.slots) do
        if slot.bulk or not only_bulk then ends[#ends + 1] = slot.since end
    end
    for _, other in ipairs(others) do due = due + (other.ready <= now and 1 or 0) end
    if #ends + due < limit then return now end
    if #ends == 0 then return now + books.held end
    sort(ends)
    local turn = floor(#ends + #others - limit)
    local at = ends[turn % #ends + 1] + books.held * (1 + floor(turn / #ends))
    return max(at, now + books.held / 8, now + 0.002)
end

local ready = now
for kind = 1, 2 do
    if own[kind] > 0 then
        ready = max(ready, room_at(kind, 1, before, whole[kind]))
        if bulk then
            ready = max(ready, room_at(kind, 2, lane_before, own[kind]))
            local paced, step = max(books.paced[kind], now), window / PACE / own[kind]
            for _, other in ipairs(lane_before) do paced = paced + other.costs[kind] * step end
            ready = max(ready, paced - window * BURST)
        end
    end
end
if own[3] > 0 then
    ready = max(ready, slot_at(false, before, whole[3]))
    if bulk then ready = max(ready, slot_at(true, lane_before, own[3])) end
end
if ready > now + NEAR then
    mark.ready = ready
    mark['until'] = ready + min((ready - now) / 2, window * LATEST) + window * GRACE
    save()
    return ceil((ready - now) * 1000000) + 1
end

books.marks[owner] = nil
local slot = {since = now, ['until'] = now + lease, bulk = bulk, slice = '', tokens = costs[2], step = 0}
for kind = 1, 2 do
    if own[kind] > 0 then
        local index = current + ceil(max(0, costs[kind] / own[kind] - 1) * SLICES)
        slot.slice = string.format('%.0f', index)
        local counted = books.used[kind][slot.slice] or {0, 0}
        counted[1] = counted[1] + costs[kind]
        if bulk then
            counted[2] = counted[2] + costs[kind]
            slot.step = window / PACE / own[kind]
            books.paced[kind] = max(books.paced[kind], now) + costs[kind] * slot.step
        end
        books.used[kind][slot.slice] = counted
    end
end
books.served = max(books.served, mark.tag)
books.ended[tenant] = mark.tag + mark.part
for name, tag in pairs(books.ended) do if tag <= books.served then books.ended[name] = nil end end
books.slots[grant] = slot
save()
return 0
"""
)

# ARGV goes on: tokens really used, or -1.
_GIVE_BACK = (
    _BOOKS
    + """
local slot = books.slots[grant]
if not slot then return 0 end
books.slots[grant] = nil
books.held = books.held + (now - slot.since - books.held) / 5
local used, counted = tonumber(ARGV[4]), books.used[2][slot.slice]
if used >= 0 and counted then
    counted[1] = counted[1] + used - slot.tokens
    if slot.bulk then counted[2] = counted[2] + used - slot.tokens end
    books.paced[2] = books.paced[2] + (used - slot.tokens) * slot.step
end
save()
return 1
"""
)

# The third of ARGV is the owner here.
_LEAVE = f"{_BOOKS} if books.marks[grant] then books.marks[grant] = nil; save() end return 0"

# Says how many milliseconds it is now.
_COOL_DOWN = """
local left = redis.call('PTTL', KEYS[1])
if left >= tonumber(ARGV[1]) then return left end
redis.call('SET', KEYS[1], '', 'PX', ARGV[1])
return tonumber(ARGV[1])
"""


class RedisThrottle:
    """One quota a provider key for all workers; all its keys begin with `prefix`. Thread-safe; no call raises.

    While the server is out of reach, each worker keeps `share` of the quota by itself. What it was granted
    then is not known to the others after the server's return, so within the first window the whole can be
    passed by up to that share. A grant whose answer was lost keeps its slot until its lease runs out.
    """

    def __init__(
        self,
        server: RedisServer,
        *,
        prefix: str,
        share: float,
        window: timedelta = local.WINDOW,
        lease: timedelta = local.LEASE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._server = server
        self._prefix = prefix
        self._times = (repr(window.total_seconds()), repr(lease.total_seconds()))
        self._alone = LocalThrottle(share=share, window=window, lease=lease, clock=clock)

    def take(
        self, key: str, tokens: int, lane: Lane, quota: Quota, owner: str, tenant: str | None = None
    ) -> Grant | Wait:
        """Leave for one request of about `tokens`, or how long to wait: see the port."""
        cool = self._alone.cool_for(key)
        if cool > 0:  # the server may have been gone when it was told
            return Wait(max(cool, self._cool_down_there(key, cool)) + 0.001)
        grant = SHARED + uuid.uuid4().hex
        rooms = [repr(room) for pair in quota.rooms(lane, 1.0) for room in pair]
        told = self._run(_TAKE, key, grant, lane, tenant or "", owner, tokens, *rooms)
        if told is None:
            return self._alone.take(key, tokens, lane, quota, owner, tenant)
        return Grant(grant) if told == 0 else Wait(told / 1e6)

    def leave(self, key: str, owner: str) -> None:
        """This owner waits no longer: what was set aside for it is free. Not waiting: nothing."""
        self._alone.leave(key, owner)
        self._run(_LEAVE, key, owner)

    def give_back(self, key: str, grant: Grant, used_tokens: int | None = None) -> None:
        """Free a grant's slot; `used_tokens` takes the place of the estimate. Given back already: nothing."""
        if grant.id.startswith(SHARED):
            self._run(_GIVE_BACK, key, grant.id, -1 if used_tokens is None else used_tokens)
        else:
            self._alone.give_back(key, grant, used_tokens)

    def cool_down(self, key: str, seconds: float) -> None:
        """Nobody is granted anything on this key for so long from now; a longer time that runs already stays."""
        self._alone.cool_down(key, seconds)
        self._cool_down_there(key, seconds)

    def cooling(self, keys: Iterable[str]) -> frozenset[str]:
        """Those of `keys` that cool down now, as far as the server or this worker knows."""
        return frozenset(key for key in keys if self._alone.cool_for(key) > 0 or self._cools_there(key))

    def close(self) -> None:
        """Nothing of its own is held: whoever opened the server closes it."""

    def _names(self, key: str) -> tuple[str, str]:
        # Braces keep both on one node of a cluster.
        return f"{self._prefix}{{{key}}}:books", f"{self._prefix}{{{key}}}:cool"

    def _run(self, script: str, key: str, *arguments: str | int) -> int | None:
        names = self._names(key)
        told = self._server.ask(lambda client: client.eval(script, 2, *names, *self._times, *arguments))
        return None if told is None else int(told)

    def _cool_down_there(self, key: str, seconds: float) -> float:
        milliseconds = math.ceil(min(seconds, local.LONGEST_COOL_DOWN) * 1000)
        if milliseconds <= 0:
            return 0.0
        name = self._names(key)[1]
        return (self._server.ask(lambda client: int(client.eval(_COOL_DOWN, 1, name, milliseconds))) or 0) / 1000

    def _cools_there(self, key: str) -> bool:
        name = self._names(key)[1]
        return bool(self._server.ask(lambda client: client.exists(name)))
