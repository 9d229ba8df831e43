"""What locks do, the real ones and the fake alike."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest

from core.adapters.no_locks import NoLocks
from core.adapters.redis_locks import RedisLocks
from core.adapters.redis_server import RedisServer
from core.ports import Locks
from tests.contract.fake_locks import FakeLocks

LONG = timedelta(minutes=1)
SHORT = timedelta(milliseconds=60)
TIMEOUT = timedelta(milliseconds=500)


@pytest.fixture(params=["fake", "redis"])
def locks(request: pytest.FixtureRequest) -> Iterator[Locks]:
    if request.param == "fake":
        yield FakeLocks()
        return
    server = RedisServer(request.getfixturevalue("valkey_url"), timeout=TIMEOUT)
    yield RedisLocks(server, prefix="test:")
    server.close()


def test_one_has_it_and_another_does_not(locks: Locks) -> None:
    assert locks.take("swap", "a", LONG) is True
    assert locks.take("swap", "b", LONG) is False
    assert locks.take("other", "b", LONG) is True


def test_taking_again_what_one_has_is_fine(locks: Locks) -> None:
    assert locks.take("swap", "a", LONG) is True
    assert locks.take("swap", "a", LONG) is True


def test_of_many_at_once_exactly_one_gets_it(locks: Locks) -> None:
    with ThreadPoolExecutor(8) as pool:
        taken = list(pool.map(lambda owner: locks.take("swap", owner, LONG), "abcdefgh"))
    assert sorted(taken, key=bool) == [False] * 7 + [True]


def test_it_runs_out_unless_it_is_renewed(locks: Locks) -> None:
    assert locks.take("swap", "a", SHORT) is True
    assert locks.renew("swap", "a", LONG) is True
    time.sleep(0.1)
    assert locks.take("swap", "b", SHORT) is False
    assert locks.renew("swap", "a", SHORT) is True
    time.sleep(0.1)
    assert locks.renew("swap", "a", LONG) is False
    assert locks.take("swap", "b", LONG) is True


def test_only_its_owner_renews_and_frees_it(locks: Locks) -> None:
    locks.take("swap", "a", LONG)
    assert locks.renew("swap", "b", LONG) is False
    locks.free("swap", "b")
    assert locks.take("swap", "c", LONG) is False
    locks.free("swap", "a")
    locks.free("swap", "a")
    assert locks.take("swap", "c", LONG) is True


def test_out_of_reach_nobody_can_say(tmp_path: Path) -> None:
    fake = FakeLocks()
    fake.out_of_reach = True
    gone = RedisLocks(RedisServer(f"unix://{tmp_path}/nobody.sock", timeout=TIMEOUT), prefix="test:")
    for locks in (fake, gone, NoLocks()):
        assert locks.take("swap", "a", LONG) is None
        assert locks.renew("swap", "a", LONG) is None
        locks.free("swap", "a")
