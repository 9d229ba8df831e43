"""The hot cache on Redis or Valkey. It may fail at any time, and then says nothing instead of raising."""

from __future__ import annotations

from datetime import timedelta

from core.adapters.redis_server import RedisServer, key_of
from core.ports import Versioned

MAX_VALUE_BYTES = 1 << 20  # one large value would push out hundreds of useful ones

# A versioned value is stored as its version in 16 digits, then `v` and the value, or `x` where it was dropped.
# Digits of one length compare as the numbers do, and every version is below 2**53.
_DIGITS = 16
_HEAD = _DIGITS + 1
_KEEP = b"v"
_DROPPED = b"x"

# One script, so that nothing comes between the comparison and the write. A value takes the place of one of
# the same version (its time starts anew), but not of that version's drop. What follows a drop stays at least
# as long as the drop would have: else a short-lived newer value would let the older ones back in.
_STORE_NEWER = """
local there = redis.call('GETRANGE', KEYS[1], 0, 16)
local version = string.sub(ARGV[1], 1, 16)
local keep = tonumber(ARGV[2])
if there ~= '' then
    local stored = string.sub(there, 1, 16)
    local dropped = string.sub(there, 17, 17) == 'x'
    if stored > version or (stored == version and dropped) then return 0 end
    if dropped then keep = math.max(keep, redis.call('PTTL', KEYS[1])) end
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', keep)
return 1
"""


class RedisCache:
    """A `Cache` whose keys all begin with `prefix`."""

    def __init__(self, server: RedisServer, *, prefix: str) -> None:
        self._server = server
        self._prefix = prefix

    @property
    def failures(self) -> int:
        """How many calls failed since it was opened; those not sent during a pause are not counted."""
        return self._server.failures

    def get(self, key: str) -> bytes | None:
        """The value, or None: not there, expired, or the cache is out of reach."""
        found = self._server.ask(lambda client: client.get(key_of(self._prefix, key)))
        return found if isinstance(found, bytes) else None

    def put(self, key: str, value: bytes, keep: timedelta) -> None:
        """Keep a value for a while, if the cache can be reached; one too large leaves nothing there."""
        milliseconds = _milliseconds(keep)
        if milliseconds <= 0 or len(value) > MAX_VALUE_BYTES:
            self.drop(key)
        else:
            self._server.ask(lambda client: client.set(key_of(self._prefix, key), value, px=milliseconds))

    def drop(self, key: str) -> None:
        """Forget a value, if the cache can be reached."""
        self._server.ask(lambda client: client.delete(key_of(self._prefix, key)))

    def get_versioned(self, key: str) -> Versioned | None:
        """A value and its version, or None: not there, dropped, or out of reach."""
        found = self.get(key)
        if found is None or found[_DIGITS:_HEAD] != _KEEP or not found[:_DIGITS].isdigit():
            return None
        return Versioned(int(found[:_DIGITS]), found[_HEAD:])

    def put_newer(self, key: str, value: Versioned, keep: timedelta) -> None:
        """Keep a value unless a newer one is there, or its version was dropped. One too large counts as dropped."""
        if len(value.value) > MAX_VALUE_BYTES:
            self.drop_older(key, value.version, keep)
        else:
            self._store_newer(key, _head(value.version) + _KEEP + value.value, keep)

    def drop_older(self, key: str, version: int, keep: timedelta) -> bool:
        """Forget a value up to this version, and take none back for a while. False: out of reach."""
        return self._store_newer(key, _head(version) + _DROPPED, keep)

    def close(self) -> None:
        """Nothing of its own is held: whoever opened the server closes it."""

    def _store_newer(self, key: str, framed: bytes, keep: timedelta) -> bool:
        # No time at all still takes the place of what is older, for a moment.
        milliseconds = max(1, _milliseconds(keep))
        named = key_of(self._prefix, key)
        said = self._server.ask(lambda client: client.eval(_STORE_NEWER, 1, named, framed, milliseconds))
        return said is not None


def _head(version: int) -> bytes:
    return f"{version:0{_DIGITS}d}".encode()


def _milliseconds(span: timedelta) -> int:
    return span // timedelta(milliseconds=1)
