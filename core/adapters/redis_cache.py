"""The hot cache on Redis or Valkey. It may fail at any time, and then says nothing instead of raising."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import TypeVar

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from core.errors import Misconfigured

logger = logging.getLogger(__name__)

MAX_VALUE_BYTES = 1 << 20  # one large value would push out hundreds of useful ones
FIRST_PAUSE = 1.0
LONGEST_PAUSE = 30.0

Answer = TypeVar("Answer")


class RedisCache:
    """A `Cache` whose keys all begin with `prefix`.

    Each call ends within about `timeout`, twice that when it has to connect. When the server cannot be
    reached, calls for the next second are not sent at all, then for two, four, up to thirty: a dead cache
    must not slow every search down.
    """

    def __init__(
        self, url: str, *, prefix: str, timeout: timedelta, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._prefix = prefix
        self._clock = clock
        self._client = _connect(url, timeout.total_seconds())
        self._lock = threading.Lock()
        self._failures = 0
        self._pause = 0.0
        self._silent_until = clock()

    @property
    def failures(self) -> int:
        """How many calls failed since it was opened; those not sent during a pause are not counted."""
        return self._failures

    def get(self, key: str) -> bytes | None:
        """The value, or None: not there, expired, or the cache is out of reach."""
        found = self._ask(lambda: self._client.get(self._prefix + key))
        return found if isinstance(found, bytes) else None

    def put(self, key: str, value: bytes, keep: timedelta) -> None:
        """Keep a value for a while, if the cache can be reached; one too large leaves nothing there."""
        milliseconds = keep // timedelta(milliseconds=1)
        if milliseconds <= 0 or len(value) > MAX_VALUE_BYTES:
            self.drop(key)
        else:
            self._ask(lambda: self._client.set(self._prefix + key, value, px=milliseconds))

    def drop(self, key: str) -> None:
        """Forget a value, if the cache can be reached."""
        self._ask(lambda: self._client.delete(self._prefix + key))

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _ask(self, call: Callable[[], Answer]) -> Answer | None:
        if self._clock() < self._silent_until:
            return None
        try:
            answer = call()
        except (redis.RedisError, OSError) as error:
            self._failed(error)
            return None
        self._pause = 0.0
        return answer

    def _failed(self, error: Exception) -> None:
        with self._lock:
            self._failures += 1
            now = self._clock()
            if isinstance(error, redis.ResponseError):  # it can be reached, and refuses this one command
                logger.warning("the cache refuses a command: %s", error)
            elif now >= self._silent_until:  # else another thread's call failed in the same outage
                self._pause = min(max(self._pause * 2, FIRST_PAUSE), LONGEST_PAUSE)
                self._silent_until = now + self._pause
                logger.warning("the cache is out of reach, next try in %.0f s: %s", self._pause, error)


def _connect(url: str, seconds: float) -> redis.Redis:
    try:
        return redis.Redis.from_url(
            url,
            socket_timeout=seconds,
            socket_connect_timeout=seconds,
            retry=Retry(NoBackoff(), 0),  # the pause is ours
        )
    except ValueError as error:
        raise Misconfigured(f"the URL of the cache cannot be used: {error}") from error
