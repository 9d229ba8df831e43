"""Entries in order under names, on Redis or Valkey, as streams. They end by themselves after a while."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from core.adapters.redis_server import RedisServer, key_of

_FIELD = b"v"

# One script, so that all of it is there with its time to live, or nothing.
_APPEND = """
if redis.call('XLEN', KEYS[1]) + #ARGV - 2 > tonumber(ARGV[2]) then return 0 end
for i = 3, #ARGV do redis.call('XADD', KEYS[1], '*', 'v', ARGV[i]) end
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return 1
"""


class RedisScratch:
    """Implements `core.write.working.Scratch`; all its keys begin with `prefix`."""

    def __init__(self, server: RedisServer, *, prefix: str) -> None:
        self._server = server
        self._prefix = prefix

    def append(self, name: str, values: Sequence[bytes], keep: timedelta, most: int) -> bool | None:
        """Add entries behind the others, all or none."""
        key, milliseconds = key_of(self._prefix, name), max(1, keep // timedelta(milliseconds=1))
        done = self._server.ask(lambda client: client.eval(_APPEND, 1, key, milliseconds, most, *values))
        return None if done is None else bool(done)

    def read(self, name: str, last: int | None = None) -> list[tuple[str, bytes]] | None:
        """Places and values of the entries, in order; of the last ones only."""
        key = key_of(self._prefix, name)
        found = self._server.ask(lambda client: client.xrevrange(key, count=last))
        if found is None:
            return None
        return [(place.decode(), fields[_FIELD]) for place, fields in reversed(found)]

    def trim(self, name: str, last: int) -> int | None:
        """Forget all but the last entries."""
        key = key_of(self._prefix, name)
        gone = self._server.ask(lambda client: client.xtrim(key, maxlen=last, approximate=False))
        return None if gone is None else int(gone)

    def remove(self, name: str, places: Sequence[str]) -> int | None:
        """Forget entries by their places."""
        if not places:
            return 0
        gone = self._server.ask(lambda client: client.xdel(key_of(self._prefix, name), *places))
        return None if gone is None else int(gone)

    def drop(self, name: str) -> bool | None:
        """Forget all entries."""
        gone = self._server.ask(lambda client: client.delete(key_of(self._prefix, name)))
        return None if gone is None else bool(gone)
