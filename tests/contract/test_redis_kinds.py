"""The cache and the locks behind each kind of URL: TCP with a password, a cluster, Sentinels."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import timedelta
from pathlib import Path

import pytest

from core.adapters.redis_cache import RedisCache
from core.adapters.redis_locks import RedisLocks
from core.adapters.redis_server import RedisServer
from core.errors import Misconfigured
from core.ports import Versioned
from tests.valkeys import behind_a_sentinel, cluster_of_one, tcp_valkey

SECRET = "s3cret-of-the-cache"
TIMEOUT = timedelta(seconds=2)
LONG = timedelta(minutes=1)


def sentinels(folder: Path) -> AbstractContextManager[str]:
    """A master found through a Sentinel."""
    return behind_a_sentinel(folder, SECRET)


@pytest.mark.parametrize("kind", [cluster_of_one, sentinels], ids=["cluster", "sentinel"])
def test_values_and_locks_behind(kind: Callable[[Path], AbstractContextManager[str]], tmp_path: Path) -> None:
    with kind(tmp_path) as url:
        server = RedisServer(url, timeout=TIMEOUT)
        cache, locks = RedisCache(server, prefix="test:"), RedisLocks(server, prefix="test:")
        for number in range(20):  # over many slots
            cache.put(f"key{number}", b"value", LONG)
            cache.put_newer(f"record{number}", Versioned(2, b"new"), LONG)
            cache.put_newer(f"record{number}", Versioned(1, b"old"), LONG)
        assert {cache.get(f"key{number}") for number in range(20)} == {b"value"}
        assert {cache.get_versioned(f"record{number}") for number in range(20)} == {Versioned(2, b"new")}
        cache.drop("key0")
        assert cache.get("key0") is None
        assert [locks.take("swap", owner, LONG) for owner in "ab"] == [True, False]
        locks.free("swap", "a")
        assert locks.take("swap", "b", LONG) is True
        assert cache.failures == 0
        server.close()


def test_a_password_is_used_and_a_wrong_one_costs_speed_only(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with tcp_valkey(tmp_path / "server", "--requirepass", SECRET) as port:
        right = RedisCache(RedisServer(f"redis://:{SECRET}@127.0.0.1:{port}", timeout=TIMEOUT), prefix="test:")
        right.put("key", b"value", LONG)
        assert right.get("key") == b"value"
        wrong = RedisCache(RedisServer(f"redis://:{SECRET}x@127.0.0.1:{port}", timeout=TIMEOUT), prefix="test:")
        assert wrong.get("key") is None
        assert wrong.failures == 1
    assert SECRET not in caplog.text


@pytest.mark.parametrize("url", ["redis+cluster://127.0.0.1:1", "redis+sentinel://127.0.0.1:1/main"])
def test_out_of_reach_is_no_error_for_these_either(url: str) -> None:
    cache = RedisCache(RedisServer(url, timeout=timedelta(milliseconds=200)), prefix="test:")
    assert cache.get("key") is None
    cache.put("key", b"value", LONG)
    assert cache.failures == 1


@pytest.mark.parametrize(
    "url",
    [
        f"redis+sentinel://:{SECRET}@127.0.0.1:1",
        f"redis+sentinel://:{SECRET}@127.0.0.1:x/main",
        f"redis+cluster://:{SECRET}@127.0.0.1:x",
        f"http://:{SECRET}@127.0.0.1",
        f"redis://:{SECRET}@127.0.0.1:x",
        f"redis://:{SECRET}@127.0.0.1?socket_timeout=soon",
    ],
)
def test_a_url_that_cannot_be_used_is_said_at_once_without_its_password(url: str) -> None:
    with pytest.raises(Misconfigured, match="URL of the cache") as raised:
        RedisServer(url, timeout=TIMEOUT)
    assert SECRET not in str(raised.value)
    assert raised.value.__cause__ is None
