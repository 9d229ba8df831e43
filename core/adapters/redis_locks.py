"""Locks on Redis or Valkey: they spare double work. What they cannot promise, the fence in PostgreSQL does."""

from __future__ import annotations

from datetime import timedelta

from core.adapters.redis_server import RedisServer, key_of

# Taking it again is fine for whoever has it: after a timeout nobody knows whether the first call arrived.
_TAKE = """
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
"""
_RENEW = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1
"""
_FREE = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])
"""


class RedisLocks:
    """Implements the port `Locks`; all its keys begin with `prefix`."""

    def __init__(self, server: RedisServer, *, prefix: str) -> None:
        self._server = server
        self._prefix = prefix

    def take(self, name: str, owner: str, keep: timedelta) -> bool | None:
        """True: ours for `keep`. False: another's. None: nobody can say."""
        return self._run(_TAKE, name, owner, keep)

    def renew(self, name: str, owner: str, keep: timedelta) -> bool | None:
        """True: ours for `keep` from now. False: no longer ours. None: nobody can say."""
        return self._run(_RENEW, name, owner, keep)

    def free(self, name: str, owner: str) -> None:
        """Let others have it, if it is still ours."""
        self._server.ask(lambda client: client.eval(_FREE, 1, key_of(self._prefix, name), owner))

    def close(self) -> None:
        """Nothing of its own is held: whoever opened the server closes it."""

    def _run(self, script: str, name: str, owner: str, keep: timedelta) -> bool | None:
        milliseconds = max(1, keep // timedelta(milliseconds=1))
        done = self._server.ask(lambda client: client.eval(script, 1, key_of(self._prefix, name), owner, milliseconds))
        return None if done is None else bool(done)
