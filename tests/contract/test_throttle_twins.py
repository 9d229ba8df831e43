"""The throttle of one process and the one on Redis are the same algorithm: to the same questions the same answers."""

from __future__ import annotations

import random
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from core.adapters import redis_throttle
from core.adapters.local_throttle import LocalThrottle
from core.adapters.redis_server import RedisServer
from core.adapters.redis_throttle import RedisThrottle
from core.model.quota import Grant, Quota, Wait
from tests.valkeys import tcp_valkey

BEGUN = 1_800_000_000_000_000  # microseconds
QUESTIONS = 120


class Clock:
    """One clock for both: in this process, and as a value the scripts read in place of the server's time."""

    def __init__(self, server: RedisServer) -> None:
        self.now = BEGUN
        self._server = server

    def __call__(self) -> float:
        return self.now // 1_000_000 + self.now % 1_000_000 / 1_000_000

    def go_on(self, microseconds: int) -> None:
        self.now += microseconds
        told = {"s": self.now // 1_000_000, "us": self.now % 1_000_000}
        self._server.ask(lambda client: client.hset("clock", mapping=told))


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    for name in ("_TAKE", "_GIVE_BACK"):
        script = getattr(redis_throttle, name)
        assert script.count("redis.call('TIME')") == 1
        monkeypatch.setattr(
            redis_throttle, name, script.replace("redis.call('TIME')", "redis.call('HMGET', 'clock', 's', 'us')")
        )
    with tcp_valkey(tmp_path) as port:
        server = RedisServer(f"redis://127.0.0.1:{port}", timeout=timedelta(seconds=5))
        yield server
        server.close()


@pytest.mark.parametrize("seed", range(20))
def test_both_say_the_same(server: RedisServer, seed: int) -> None:
    rnd = random.Random(seed)
    clock = Clock(server)
    times = {"window": timedelta(seconds=rnd.choice([60, 5])), "lease": timedelta(seconds=rnd.choice([1, 30]))}
    local = LocalThrottle(clock=clock, **times)
    shared = RedisThrottle(server, prefix=f"twins{seed}:", share=1.0, **times)
    quota = Quota(
        requests_per_minute=rnd.choice([None, 7, 100]),
        tokens_per_minute=rnd.choice([None, 333, 5000]),
        at_once=rnd.choice([None, 2, 5]),
        kept_for_queries=rnd.choice([0, 0.1, 0.35]),
    )
    held: list[tuple[Grant, Grant]] = []
    for _ in range(QUESTIONS):
        clock.go_on(rnd.choice([0, 1_000, 50_000, 700_000, 4_000_000]))
        if held and rnd.random() < 0.4:
            ours, theirs = held.pop(rnd.randrange(len(held)))
            used = rnd.choice([None, 1, 40, 300])
            local.give_back("k", ours, used)
            shared.give_back("k", theirs, used)
            continue
        tokens, tenant = rnd.choice([1, 20, 100, 400]), rnd.choice(["a", "b", None])
        owner = f"owner{rnd.randrange(8)}"
        lane: Any = rnd.choice(["query", "bulk", "bulk"])
        one, other = (throttle.take("k", tokens, lane, quota, owner, tenant) for throttle in (local, shared))
        if isinstance(one, Grant):
            assert isinstance(other, Grant)
            held.append((one, other))
        else:
            assert isinstance(other, Wait)
            assert other.seconds == pytest.approx(one.seconds, abs=1e-3)
    assert server.failures == 0
