"""What every cache does, the real one and the fake alike, and what the real one does in trouble."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest
import redis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.adapters.embedded_valkey import start_valkey, stop_valkey
from core.adapters.redis_cache import MAX_VALUE_BYTES, RedisCache
from core.adapters.redis_server import RedisServer
from core.errors import Misconfigured
from core.model.version import CEILING, EPOCH_UNIT
from core.ports import Cache, Versioned
from tests.contract.fake_cache import FakeCache
from tests.servers import temporary_home

LONG = timedelta(minutes=1)
TIMEOUT = timedelta(milliseconds=200)


def redis_cache(url: str, *, prefix: str = "test:", clock: Callable[[], float] = time.monotonic) -> RedisCache:
    """The cache on a server; its connections end with the process."""
    return RedisCache(RedisServer(url, timeout=TIMEOUT, clock=clock), prefix=prefix)


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
        opened = redis_cache(request.getfixturevalue("valkey_url"))
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


VERSIONS = [
    (1, 2),
    (9, 10),
    (EPOCH_UNIT - 1, EPOCH_UNIT),
    (7 * EPOCH_UNIT + 3, 8 * EPOCH_UNIT),
    (CEILING - 2, CEILING - 1),
]


@pytest.mark.parametrize(("older", "newer"), VERSIONS)
def test_a_slow_reader_does_not_put_an_old_value_back(cache: Cache, older: int, newer: int) -> None:
    cache.put_newer("key", Versioned(older, b"old"), LONG)
    cache.put_newer("key", Versioned(newer, b"new"), LONG)
    cache.put_newer("key", Versioned(older, b"old"), LONG)
    assert cache.get_versioned("key") == Versioned(newer, b"new")


@pytest.mark.parametrize(("older", "newer"), VERSIONS)
def test_what_was_deleted_is_not_put_back_until_it_is_written_again(cache: Cache, older: int, newer: int) -> None:
    cache.put_newer("key", Versioned(older, b"old"), LONG)
    cache.drop_older("key", older, LONG)
    assert cache.get_versioned("key") is None
    cache.put_newer("key", Versioned(older, b"old"), LONG)
    assert cache.get_versioned("key") is None
    cache.put_newer("key", Versioned(newer, b"new"), LONG)
    assert cache.get_versioned("key") == Versioned(newer, b"new")


def test_a_late_drop_leaves_a_newer_value(cache: Cache) -> None:
    cache.put_newer("key", Versioned(5, b"new"), LONG)
    cache.drop_older("key", 4, LONG)
    assert cache.get_versioned("key") == Versioned(5, b"new")


def test_the_note_of_a_drop_is_a_short_one(cache: Cache) -> None:
    cache.drop_older("key", 4, timedelta(milliseconds=50))
    time.sleep(0.1)
    cache.put_newer("key", Versioned(3, b"kept"), LONG)
    assert cache.get_versioned("key") == Versioned(3, b"kept")


def test_a_short_lived_newer_value_does_not_end_what_a_drop_promised(cache: Cache) -> None:
    cache.drop_older("key", 5, LONG)
    cache.put_newer("key", Versioned(6, b"newer"), timedelta(milliseconds=30))
    cache.drop_older("other", 5, LONG)
    cache.drop_older("other", 6, timedelta(milliseconds=30))
    time.sleep(0.1)
    for key in ("key", "other"):
        cache.put_newer(key, Versioned(4, b"old"), LONG)
        found = cache.get_versioned(key)
        assert found is None or found.version == 6


@pytest.mark.parametrize("keep", [timedelta(0), timedelta(microseconds=5), timedelta(seconds=-1)])
def test_no_time_at_all_still_ends_what_is_older(cache: Cache, keep: timedelta) -> None:
    for key in ("put", "dropped"):
        cache.put_newer(key, Versioned(4, b"old"), LONG)
    cache.put_newer("put", Versioned(5, b"new"), keep)
    cache.drop_older("dropped", 4, keep)
    time.sleep(0.02)
    assert cache.get_versioned("put") is None
    assert cache.get_versioned("dropped") is None


@pytest.mark.parametrize("value", [b"", b"x", b"0000000000000009x", bytes(range(256))])
def test_versioned_values_of_any_bytes(cache: Cache, value: bytes) -> None:
    cache.put_newer("key", Versioned(7, value), LONG)
    assert cache.get_versioned("key") == Versioned(7, value)


@given(
    steps=st.lists(st.tuples(st.booleans(), st.integers(1, 4)), max_size=12),
)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_in_any_order_the_newest_version_wins(cache: Cache, steps: list[tuple[bool, int]]) -> None:
    cache.drop("key")
    for is_drop, version in steps:
        if is_drop:
            cache.drop_older("key", version, LONG)
        else:
            cache.put_newer("key", Versioned(version, str(version).encode()), LONG)
    newest = max((version for _, version in steps), default=None)
    if newest is None or (True, newest) in steps:
        assert cache.get_versioned("key") is None
    else:
        assert cache.get_versioned("key") == Versioned(newest, str(newest).encode())


def test_keys_of_any_text(cache: Cache) -> None:
    for key in ("", "a b", "é", "line\nbreak", "k" * 1000, "*", "lone \ud83d"):
        cache.put(key, key.encode(errors="replace"), LONG)
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
    one, two = (redis_cache(valkey_url, prefix=prefix) for prefix in ("one:", "two:"))
    one.put("key", b"1", LONG)
    assert two.get("key") is None
    two.drop("key")
    assert one.get("key") == b"1"
    with redis.Redis.from_url(valkey_url) as client:
        assert client.keys("*") == [b"one:key"]
        assert 0 < client.pttl("one:key") <= 60_000


def test_a_value_too_large_leaves_no_older_one_behind(valkey_url: str) -> None:
    cache = redis_cache(valkey_url)
    cache.put("key", b"old", LONG)
    cache.put("key", b"x" * (MAX_VALUE_BYTES + 1), LONG)
    assert cache.get("key") is None
    assert cache.failures == 0


def test_a_versioned_value_too_large_leaves_no_older_one_behind(valkey_url: str) -> None:
    cache = redis_cache(valkey_url)
    cache.put_newer("key", Versioned(1, b"old"), LONG)
    cache.put_newer("key", Versioned(2, b"x" * (MAX_VALUE_BYTES + 1)), LONG)
    assert cache.get_versioned("key") is None
    assert cache.failures == 0


def test_what_somebody_else_put_under_a_versioned_key_is_no_value(valkey_url: str) -> None:
    cache = redis_cache(valkey_url)
    for foreign in (b"", b"short", b"sixteen-letters!vvalue"):
        cache.put("key", foreign, LONG)
        assert cache.get_versioned("key") is None


def test_out_of_reach_is_no_error_and_is_counted(nobody: str) -> None:
    cache = redis_cache(nobody, clock=Clock())
    assert cache.get("key") is None
    assert cache.failures == 1
    cache.put("key", b"value", LONG)
    cache.drop("key")
    assert cache.failures == 1  # not sent: it waits


def test_pauses_double_up_to_thirty_seconds(nobody: str) -> None:
    clock = Clock()
    cache = redis_cache(nobody, clock=clock)
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
        cache = redis_cache(url, clock=clock)
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(cache.get, "abcd"))
        failures = cache.failures
        assert failures > 1
        clock.now += 1.01
        cache.get("key")
        assert cache.failures == failures + 1


def test_a_server_that_does_not_answer_costs_the_timeout_once() -> None:
    with silent_server() as url:
        cache = redis_cache(url)
        started = time.monotonic()
        for _ in range(50):
            assert cache.get("key") is None
        assert time.monotonic() - started < 3 * TIMEOUT.total_seconds()
        assert cache.failures == 1


def test_it_comes_back_when_the_server_does(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    with temporary_home() as home:
        cache = redis_cache(start_valkey(home), clock=clock)
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
    cache = redis_cache(valkey_url, clock=Clock())
    assert cache.get("list") is None
    assert cache.failures == 1
    cache.put("key", b"value", LONG)
    assert cache.get("key") == b"value"


def test_a_bad_url_is_said_at_once() -> None:
    with pytest.raises(Misconfigured, match="URL of the cache"):
        redis_cache("http://example.org")


def test_the_fake_can_be_taken_out_of_reach() -> None:
    fake = FakeCache()
    fake.put("key", b"value", LONG)
    fake.out_of_reach = True
    fake.put("key", b"newer", LONG)
    assert fake.get("key") is None
    fake.out_of_reach = False
    assert fake.get("key") == b"value"
