"""The cache and the locks over a network that is slow, cuts in the middle, is gone, and comes back."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import timedelta

import pytest

from core.adapters.redis_cache import RedisCache
from core.adapters.redis_locks import RedisLocks
from core.adapters.redis_server import RedisServer
from core.ports import Versioned
from tests.tcp_proxy import TcpProxy, tcp_proxy
from tests.valkeys import tcp_valkey

LONG = timedelta(minutes=1)
TIMEOUT = timedelta(milliseconds=200)


class Clock:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with tcp_valkey(tmp_path_factory.mktemp("valkey")) as port:
        yield port


@pytest.fixture
def proxy(port: int) -> Iterator[TcpProxy]:
    with tcp_proxy(port) as proxy:
        yield proxy


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def server(proxy: TcpProxy, clock: Clock) -> Iterator[RedisServer]:
    server = RedisServer(f"redis://127.0.0.1:{proxy.port}", timeout=TIMEOUT, clock=clock)
    yield server
    server.close()


def test_slow_costs_the_timeout_once_and_no_error(server: RedisServer, proxy: TcpProxy, clock: Clock) -> None:
    cache, locks = RedisCache(server, prefix="slow:"), RedisLocks(server, prefix="slow:")
    cache.put("key", b"value", LONG)
    proxy.delay(5)
    started = time.monotonic()
    assert cache.get("key") is None
    assert locks.take("swap", "a", LONG) is None
    cache.put_newer("record", Versioned(1, b"x"), LONG)
    assert time.monotonic() - started < 4 * TIMEOUT.total_seconds()
    assert server.failures == 1
    proxy.cut()
    proxy.restore()
    clock.now += 1.1
    assert cache.get("key") == b"value"


@pytest.mark.parametrize("count", [1, 10, 100, 60_000])
def test_an_answer_cut_in_the_middle_is_a_miss_and_never_a_part(
    server: RedisServer, proxy: TcpProxy, clock: Clock, count: int
) -> None:
    cache = RedisCache(server, prefix=f"cut{count}:")
    value = b"v" * 100_000
    cache.put_newer("key", Versioned(7, value), LONG)
    proxy.cut_after(count)
    assert cache.get_versioned("key") is None
    clock.now += 1.1
    assert cache.get_versioned("key") == Versioned(7, value)


def test_gone_and_back_it_still_keeps_the_newest(server: RedisServer, proxy: TcpProxy, clock: Clock) -> None:
    """A server that was cut off returns with old values: a reader that knows a newer one replaces them."""
    cache = RedisCache(server, prefix="gone:")
    cache.put_newer("key", Versioned(1, b"old"), LONG)
    proxy.refuse()
    cache.put_newer("key", Versioned(2, b"new"), LONG)  # lost
    cache.drop_older("key", 3, LONG)  # lost too
    assert cache.get_versioned("key") is None
    proxy.restore()
    clock.now += 40
    assert cache.get_versioned("key") == Versioned(1, b"old")  # its version tells the reader that it is old
    cache.put_newer("key", Versioned(4, b"newest"), LONG)
    cache.put_newer("key", Versioned(2, b"new"), LONG)
    assert cache.get_versioned("key") == Versioned(4, b"newest")


def test_a_lock_taken_by_a_call_whose_answer_was_lost_is_taken_again(
    server: RedisServer, proxy: TcpProxy, clock: Clock
) -> None:
    locks = RedisLocks(server, prefix="lost:")
    locks.take("warm", "a", LONG)
    proxy.cut_after(1)
    assert locks.take("swap", "a", LONG) is None
    clock.now += 1.1
    assert locks.take("swap", "b", LONG) is False
    assert locks.take("swap", "a", LONG) is True
