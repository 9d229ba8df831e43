"""One Redis or Valkey, alone, behind Sentinels or as a cluster, which may fail at any time.

    redis://…  rediss://…  unix://…                          as redis-py reads them
    redis+cluster://host:port   rediss+cluster://…           a cluster, found through any of its nodes
    redis+sentinel://host:port,host:port/service/0           the master the Sentinels name (also rediss+sentinel)

User and password in the URL are the data servers'; `?sentinel_username=…&sentinel_password=…` are the
Sentinels'. Other query parameters, such as `ssl_ca_certs`, go to redis-py as they are.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

import redis
from redis.backoff import NoBackoff
from redis.cluster import RedisCluster
from redis.exceptions import RedisClusterException
from redis.retry import Retry
from redis.sentinel import Sentinel

from core.errors import Misconfigured, Unavailable

logger = logging.getLogger(__name__)

FIRST_PAUSE = 1.0
LONGEST_PAUSE = 30.0
SENTINEL_PORT = 26379
CLUSTER_TRIES = 3  # a slot that has moved costs one more try

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class ServerState:
    """A server's version, whether it makes room when it is full, and whether it writes to disk."""

    version: str
    evicts: bool
    keeps_on_disk: bool


class RedisServer:
    """Calls to a server that say nothing instead of raising, and leave it in peace while it is down. Thread-safe.

    Each call ends within about `timeout`, twice that when it has to connect. When the server cannot be
    reached, calls for the next second are not sent at all, then for two, four, up to thirty: what is
    dead must not slow every search down.
    """

    def __init__(self, url: str, *, timeout: timedelta, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._connect = _connector(url, timeout.total_seconds())
        self._client: Any = None
        self._lock = threading.Lock()
        self._failures = 0
        self._pause = 0.0
        self._silent_until = clock()

    @property
    def failures(self) -> int:
        """How many calls failed since it was opened; those not sent during a pause are not counted."""
        return self._failures

    def ask(self, call: Callable[[Any], Answer]) -> Answer | None:
        """What `call` makes of the client, or None: the server is out of reach or refuses the command."""
        if self._clock() < self._silent_until:
            return None
        try:
            answer = call(self._connected())
        except (redis.RedisError, RedisClusterException, OSError) as error:
            self._failed(error)
            return None
        self._pause = 0.0
        return answer

    def describe(self) -> ServerState:
        """What the server says of itself. Raises Unavailable."""
        told = self.ask(lambda client: client.info())
        if told is None:
            raise Unavailable("the cache is out of reach, or refuses to say what it is")
        flat = next(iter(told.values())) if told and isinstance(next(iter(told.values())), dict) else told
        name = str(flat.get("server_name", "redis")).capitalize()
        return ServerState(
            version=f"{name} {flat.get(f'{name.lower()}_version', flat.get('redis_version', 'of unknown version'))}",
            evicts=flat.get("maxmemory_policy") != "noeviction" or not flat.get("maxmemory"),
            keeps_on_disk=bool(flat.get("aof_enabled")) or int(flat.get("rdb_saves", 0)) > 0,
        )

    def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            self._client.close()

    def _connected(self) -> Any:
        # A cluster's client asks for the slots when it is made: not before somebody wants an answer.
        with self._lock:
            if self._client is None:
                self._client = self._connect()
            return self._client

    def _failed(self, error: Exception) -> None:
        with self._lock:
            self._failures += 1
            now = self._clock()
            if isinstance(error, redis.ResponseError):  # it can be reached, and refuses this one command
                # The code alone (NOPERM, WRONGTYPE): the words after it may quote keys and values.
                logger.warning("the cache refuses a command: %s", str(error).split(" ", 1)[0])
            elif now >= self._silent_until:  # else another thread's call failed in the same outage
                self._pause = min(max(self._pause * 2, FIRST_PAUSE), LONGEST_PAUSE)
                self._silent_until = now + self._pause
                logger.warning("the cache is out of reach, next try in %.0f s: %s", self._pause, error)


def key_of(prefix: str, name: str) -> bytes:
    """Any text makes a key, a lone surrogate too: no call raises."""
    return (prefix + name).encode("utf-8", "surrogatepass")


def _connector(url: str, seconds: float) -> Callable[[], Any]:
    """How to make the client of a URL. Raises Misconfigured now for a URL that cannot be used."""
    # The pause is ours, so the library does not try again.
    options: dict[str, Any] = {
        "socket_timeout": seconds,
        "socket_connect_timeout": seconds,
        "retry": Retry(NoBackoff(), 0),
    }
    try:
        parts = urlsplit(url)
        kind = parts.scheme.partition("+")[2]
        if kind == "sentinel":
            return _behind_sentinels(parts, options)
        if kind == "cluster":
            plain = url.replace("+cluster", "", 1)
            redis.Redis.from_url(plain)  # nothing is connected yet: it only reads the URL
            options["retry"] = Retry(NoBackoff(), CLUSTER_TRIES)
            return lambda: RedisCluster.from_url(plain, **options)
        client = redis.Redis.from_url(url, **options)
    except ValueError:
        # What the parser says may quote the password.
        raise Misconfigured("the URL of the cache cannot be used: see the forms in the README") from None
    return lambda: client


def _behind_sentinels(parts: SplitResult, options: dict[str, Any]) -> Callable[[], Any]:
    service, _, database = parts.path.strip("/").partition("/")
    if not service:
        raise ValueError("after the Sentinels comes /service")
    given = dict(parse_qsl(parts.query))
    theirs = {name.removeprefix("sentinel_"): given.pop(name) for name in list(given) if name.startswith("sentinel_")}
    transport: dict[str, Any] = {name: value for name, value in given.items() if name.startswith("ssl")}
    if parts.scheme.startswith("rediss"):
        transport["ssl"] = True
    account = {"username": _plain(parts.username), "password": _plain(parts.password)}
    sentinel: Any = Sentinel  # its own annotations are not complete
    watchers = sentinel(
        [_address(one) for one in parts.netloc.rpartition("@")[2].split(",")],
        sentinel_kwargs={**options, **theirs, **transport},
        **options,
        **{name: value for name, value in account.items() if value is not None},
        **transport,
    )
    client = watchers.master_for(service, db=int(database or 0))
    return lambda: client


def _address(text: str) -> tuple[str, int]:
    parts = urlsplit(f"//{text}")
    if not parts.hostname:
        raise ValueError("a Sentinel has no host name")
    return parts.hostname, parts.port or SENTINEL_PORT


def _plain(text: str | None) -> str | None:
    return None if text is None else unquote(text)
