"""What every cache does, the real one and the fake alike, and what the real one does in trouble."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest
import redis

from core.adapters.embedded_valkey import start_valkey, stop_valkey
from core.adapters.redis_cache import MAX_VALUE_BYTES, RedisCache
from core.errors import Misconfigured
from core.ports import Cache
from tests.contract.fake_cache import FakeCache
from tests.servers import temporary_home

LONG = timedelta(minutes=1)
TIMEOUT = timedelta(milliseconds=200)


class Clock:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(params=["fake", "redis"])
def cache(request: pytest.FixtureRequest) -> Iterator[Cache]:
    opened: Cache = FakeCache()
    if request.param == "redis":
        opened = RedisCache(request.getfixturevalue("valkey_url"), prefix="test:", timeout=TIMEOUT)
    yield opened
    opened.close()


@pytest.fixture
def nobody(tmp_path: Path) -> str:
    """URL of a socket on which nobody listens."""
    return f"unix://{tmp_path}/nobody.sock"


@contextmanager
def silent_server() -> Iterator[str]:
    """URL of a server that takes connections and never says anything."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        host, port = listening.getsockname()
        yield f"redis://{host}:{port}"


@pytest.mark.parametrize("value", [b"value", b"", bytes(range(256)), b"x" * 100_000])
def test_gives_back_what_was_put(cache: Cache, value: bytes) -> None:
    cache.put("key", value, LONG)
    assert cache.get("key") == value


def test_what_was_never_put_is_not_there(cache: Cache) -> None:
    assert cache.get("other") is None


def test_the_last_put_wins(cache: Cache) -> None:
    cache.put("key", b"old", LONG)
    cache.put("key", b"new", LONG)
    assert cache.get("key") == b"new"


def test_drop_forgets_and_may_be_repeated(cache: Cache) -> None:
    cache.put("key", b"value", LONG)
    cache.drop("key")
    cache.drop("key")
    assert cache.get("key") is None


def test_a_value_expires(cache: Cache) -> None:
    cache.put("key", b"value", timedelta(milliseconds=50))
    assert cache.get("key") == b"value"
    time.sleep(0.1)
    assert cache.get("key") is None


@pytest.mark.parametrize("keep", [timedelta(0), timedelta(seconds=-1)])
def test_kept_for_no_time_is_gone(cache: Cache, keep: timedelta) -> None:
    cache.put("key", b"old", LONG)
    cache.put("key", b"new", keep)
    assert cache.get("key") is None


def test_keys_of_any_text(cache: Cache) -> None:
    for key in ("", "a b", "é", "line\nbreak", "k" * 1000, "*"):
        cache.put(key, key.encode(), LONG)
    assert cache.get("line\nbreak") == b"line\nbreak"
    cache.drop("*")
    assert cache.get("a b") == b"a b"


def test_threads_share_it(cache: Cache) -> None:
    def work(number: int) -> bytes | None:
        cache.put(f"key{number}", str(number).encode(), LONG)
        return cache.get(f"key{number}")

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(work, range(100))) == [str(number).encode() for number in range(100)]


def test_prefixes_keep_apart(valkey_url: str) -> None:
    one, two = (RedisCache(valkey_url, prefix=prefix, timeout=TIMEOUT) for prefix in ("one:", "two:"))
    one.put("key", b"1", LONG)
    assert two.get("key") is None
    two.drop("key")
    assert one.get("key") == b"1"
    with redis.Redis.from_url(valkey_url) as client:
        assert client.keys("*") == [b"one:key"]
        assert 0 < client.pttl("one:key") <= 60_000


def test_a_value_too_large_leaves_no_older_one_behind(valkey_url: str) -> None:
    cache = RedisCache(valkey_url, prefix="test:", timeout=TIMEOUT)
    cache.put("key", b"old", LONG)
    cache.put("key", b"x" * (MAX_VALUE_BYTES + 1), LONG)
    assert cache.get("key") is None
    assert cache.failures == 0


def test_out_of_reach_is_no_error_and_is_counted(nobody: str) -> None:
    cache = RedisCache(nobody, prefix="test:", timeout=TIMEOUT, clock=Clock())
    assert cache.get("key") is None
    assert cache.failures == 1
    cache.put("key", b"value", LONG)
    cache.drop("key")
    assert cache.failures == 1  # not sent: it waits


def test_pauses_double_up_to_thirty_seconds(nobody: str) -> None:
    clock = Clock()
    cache = RedisCache(nobody, prefix="test:", timeout=TIMEOUT, clock=clock)
    for tries, pause in enumerate([1, 2, 4, 8, 16, 30, 30], start=1):
        cache.get("key")
        assert cache.failures == tries
        clock.now += pause - 0.01
        cache.get("key")
        assert cache.failures == tries
        clock.now += 0.02


def test_threads_that_fail_together_make_one_pause() -> None:
    with silent_server() as url:
        clock = Clock()
        cache = RedisCache(url, prefix="test:", timeout=TIMEOUT, clock=clock)
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(cache.get, "abcd"))
        failures = cache.failures
        assert failures > 1
        clock.now += 1.01
        cache.get("key")
        assert cache.failures == failures + 1


def test_a_server_that_does_not_answer_costs_the_timeout_once() -> None:
    with silent_server() as url:
        cache = RedisCache(url, prefix="test:", timeout=TIMEOUT)
        started = time.monotonic()
        for _ in range(50):
            assert cache.get("key") is None
        assert time.monotonic() - started < 3 * TIMEOUT.total_seconds()
        assert cache.failures == 1


def test_it_comes_back_when_the_server_does(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    with temporary_home() as home:
        cache = RedisCache(start_valkey(home), prefix="test:", timeout=TIMEOUT, clock=clock)
        cache.put("key", b"value", LONG)
        stop_valkey(home)
        assert cache.get("key") is None
        assert cache.failures == 1
        assert "out of reach" in caplog.text
        start_valkey(home)
        assert cache.get("key") is None  # still waiting
        clock.now += 1.01
        cache.put("key", b"again", LONG)
        assert cache.get("key") == b"again"
        assert cache.failures == 1
        stop_valkey(home)
        start_valkey(home)  # a restart in between is not even noticed
        cache.put("key", b"third", LONG)
        assert cache.get("key") == b"third"


def test_a_refused_command_does_not_silence_the_others(valkey_url: str) -> None:
    with redis.Redis.from_url(valkey_url) as client:
        client.rpush("test:list", "not a string")
    cache = RedisCache(valkey_url, prefix="test:", timeout=TIMEOUT, clock=Clock())
    assert cache.get("list") is None
    assert cache.failures == 1
    cache.put("key", b"value", LONG)
    assert cache.get("key") == b"value"


def test_a_bad_url_is_said_at_once() -> None:
    with pytest.raises(Misconfigured, match="URL of the cache"):
        RedisCache("http://example.org", prefix="test:", timeout=TIMEOUT)


def test_the_fake_can_be_taken_out_of_reach() -> None:
    fake = FakeCache()
    fake.put("key", b"value", LONG)
    fake.out_of_reach = True
    fake.put("key", b"newer", LONG)
    assert fake.get("key") is None
    fake.out_of_reach = False
    assert fake.get("key") == b"value"
