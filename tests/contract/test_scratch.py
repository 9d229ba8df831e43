"""What stores of working memory do, the real one and the fake alike."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from core.adapters.redis_scratch import RedisScratch
from core.adapters.redis_server import RedisServer
from core.write.working import Scratch
from tests.contract.fake_scratch import FakeScratch
from tests.valkeys import cluster_of_one

LONG = timedelta(minutes=1)
SHORT = timedelta(milliseconds=60)
TIMEOUT = timedelta(milliseconds=500)


@pytest.fixture(params=["fake", "redis"])
def scratch(request: pytest.FixtureRequest) -> Iterator[Scratch]:
    if request.param == "fake":
        yield FakeScratch()
        return
    server = RedisServer(request.getfixturevalue("valkey_url"), timeout=TIMEOUT)
    yield RedisScratch(server, prefix="test:")
    server.close()


def values(scratch: Scratch, name: str, last: int | None = None) -> list[bytes]:
    found = scratch.read(name, last)
    assert found is not None
    return [value for _, value in found]


def test_entries_come_back_in_order_and_the_last_ones_alone(scratch: Scratch) -> None:
    assert scratch.append("a", [b"1", b"2"], LONG, 10) is True
    assert scratch.append("a", [b"3\x00\xff"], LONG, 10) is True
    assert values(scratch, "a") == [b"1", b"2", b"3\x00\xff"]
    assert values(scratch, "a", 2) == [b"2", b"3\x00\xff"]
    assert values(scratch, "b") == []


def test_what_has_no_room_is_not_added_in_part(scratch: Scratch) -> None:
    assert scratch.append("a", [b"1", b"2"], LONG, 3) is True
    assert scratch.append("a", [b"3", b"4"], LONG, 3) is False
    assert values(scratch, "a") == [b"1", b"2"]


def test_trimming_removing_and_dropping(scratch: Scratch) -> None:
    scratch.append("a", [b"1", b"2", b"3", b"4"], LONG, 10)
    assert scratch.trim("a", 3) == 1
    assert scratch.trim("a", 3) == 0
    found = scratch.read("a")
    assert found is not None
    assert scratch.remove("a", [found[1][0]]) == 1
    assert scratch.remove("a", [found[1][0]]) == 0
    assert values(scratch, "a") == [b"2", b"4"]
    assert (scratch.drop("a"), scratch.drop("a")) == (True, False)
    assert values(scratch, "a") == []


def test_all_of_it_ends_together_and_later_with_each_entry(scratch: Scratch) -> None:
    scratch.append("a", [b"1"], SHORT, 10)
    scratch.append("b", [b"1"], SHORT, 10)
    scratch.append("b", [b"2"], LONG, 10)
    time.sleep(0.12)
    assert values(scratch, "a") == []
    assert values(scratch, "b") == [b"1", b"2"]


def test_out_of_reach_nobody_can_say() -> None:
    gone = RedisScratch(RedisServer("redis://127.0.0.1:1", timeout=TIMEOUT), prefix="test:")
    fake = FakeScratch()
    fake.out_of_reach = True
    for scratch in (gone, fake):
        assert scratch.append("a", [b"1"], LONG, 10) is None
        assert scratch.read("a") is None
        assert scratch.trim("a", 1) is None
        assert scratch.remove("a", ["1-1"]) is None
        assert scratch.drop("a") is None


def test_it_works_on_a_cluster(tmp_path: Path) -> None:
    with cluster_of_one(tmp_path) as url:
        server = RedisServer(url, timeout=timedelta(seconds=2))
        scratch = RedisScratch(server, prefix="test:")
        assert scratch.append("a", [b"1", b"2"], LONG, 10) is True
        assert values(scratch, "a") == [b"1", b"2"]
        assert scratch.drop("a") is True
        server.close()
