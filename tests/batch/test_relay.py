"""The relay of events: every one at least once, per memory in the order of commits, never past what is under way."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from core.adapters.redis_server import RedisServer
from core.adapters.redis_streams import RedisStreams
from core.batch.relay import RelayWork, Report, plan, step
from core.errors import Unavailable
from core.model.event import EventLag
from core.model.memory import Draft
from core.model.space import EmbeddingSpace
from core.record.database import Database, Limits
from core.record.memories import tombstone
from core.record.relay import Relay
from core.write.writer import Writer
from tests.contract.fake_locks import FakeLocks
from tests.contract.fake_stream import FakeStream

SPACE = EmbeddingSpace(provider="test", model="four", dimensions=4)


@dataclass
class Telling:
    database: Database
    writer: Writer
    stream: FakeStream
    work: RelayWork
    url: str

    def tell(self, tenant: str = "t", limit: int = 1000) -> Report:
        return step(self.work, tenant, limit)

    def told(self, tenant: str = "t") -> list[tuple[str, str, int]]:
        return [(one.kind, one.memory_id, one.version) for one in self.stream.told.get(tenant, [])]


@pytest.fixture
def telling(database_url: str) -> Iterator[Telling]:
    database = Database(database_url, Limits())
    database.open()
    stream = FakeStream()
    work = RelayWork(database=database, stream=stream, locks=FakeLocks(), new_id=uuid.uuid4, keep=timedelta(minutes=1))
    yield Telling(database, Writer(database, SPACE, lambda: uuid.uuid4().hex), stream, work, database_url)
    database.close()


def test_a_plan_names_tenants_with_events_those_that_wait_longest_first() -> None:
    early, late = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)
    lags = [EventLag("a", 3, late, None), EventLag("b", 0, None, None), EventLag("c", 1, early, None)]
    assert plan(lags) == ["c", "a"]


def test_every_event_is_told_once_in_order_and_the_lag_is_known(telling: Telling) -> None:
    telling.writer.write("t", Draft(id="m1", content="one"))
    telling.writer.write("t", Draft(id="m1", content="two"))
    telling.writer.write("u", Draft(id="m1", content="of another"))
    telling.writer.delete("t", "m1")
    assert [(one.tenant, one.waiting) for one in Relay(telling.database).lag()] == [("t", 3), ("u", 1)]
    assert (telling.tell().told, telling.tell().told) == (3, 0)
    assert telling.told() == [
        ("memory.created", "m1", 1), ("memory.updated", "m1", 2), ("memory.deleted", "m1", 3),
    ]  # fmt: skip
    assert telling.told("u") == []
    lag = {one.tenant: one for one in Relay(telling.database).lag()}
    assert (lag["t"].waiting, lag["t"].oldest, lag["u"].waiting) == (0, None, 1)
    assert lag["t"].relayed_at is not None


def test_it_goes_in_portions_and_says_when_it_is_done(telling: Telling) -> None:
    list(telling.writer.write_many("t", [Draft(id=f"m{n}", content=f"note {n}") for n in range(25)]))
    reports = [telling.tell(limit=10) for _ in range(3)]
    assert [(one.told, one.done) for one in reports] == [(10, False), (10, False), (5, True)]
    assert len(set(telling.told())) == 25


def test_a_transaction_under_way_holds_back_what_comes_after_it_and_nothing_is_skipped(telling: Telling) -> None:
    telling.writer.write("t", Draft(id="m0", content="before"))
    with telling.database.tenant("t") as session:
        tombstone(session, "t", ["m0"])  # its event has its number, and is not committed
        telling.writer.write("t", Draft(id="m1", content="after"))
        telling.tell()
        assert ("memory.created", "m1", 1) not in telling.told()
    telling.tell()
    assert telling.told() == [("memory.created", "m0", 1), ("memory.deleted", "m0", 2), ("memory.created", "m1", 1)]


def test_a_transaction_that_was_rolled_back_holds_nothing_up(telling: Telling) -> None:
    telling.writer.write("t", Draft(id="m0", content="before"))
    with telling.database.tenant("t") as session:
        tombstone(session, "t", ["m0"])
        session.rollback()
    telling.writer.write("t", Draft(id="m1", content="after"))
    telling.tell()
    assert [name for _, name, _ in telling.told()] == ["m0", "m1"]


def test_changes_of_one_memory_are_told_in_the_order_of_commits_whatever_their_transactions_numbers(
    telling: Telling,
) -> None:
    """A transaction that began first may come to a memory last."""
    telling.writer.write("t", Draft(id="m0", content="first"))
    telling.writer.write("t", Draft(id="m1", content="first"))
    with telling.database.tenant("t") as early, psycopg.connect(telling.url, autocommit=True) as other:
        tombstone(early, "t", ["m1"])  # has its transaction number now
        telling.writer.write("t", Draft(id="m0", content="second"))  # a later number, committed first
        other.execute("SELECT pg_current_xact_id()")
        tombstone(early, "t", ["m0"])
    telling.tell()
    assert [version for _, name, version in telling.told() if name == "m0"] == [1, 2, 3]


def test_under_many_writers_every_event_is_told_and_versions_of_a_memory_only_rise(telling: Telling) -> None:
    def write(seed: int) -> None:
        for n in range(40):
            drafts = [Draft(id=f"m{(seed * 7 + n * k) % 15}", content=f"{seed} {n} {k}") for k in range(1, 4)]
            list(telling.writer.write_many("t", list({one.id: one for one in drafts}.values())))

    threads = [threading.Thread(target=write, args=(seed,)) for seed in range(3)]
    for one in threads:
        one.start()
    while any(one.is_alive() for one in threads):
        telling.tell()
    for one in threads:
        one.join(60)
    telling.tell()
    with psycopg.connect(telling.url) as session:
        kept = session.execute("SELECT kind, memory_id, version FROM event ORDER BY seq").fetchall()
    assert telling.told() == kept
    for name in {name for _, name, _ in kept}:
        versions = [version for _, one, version in telling.told() if one == name]
        assert versions == sorted(versions)


def test_what_may_have_been_told_is_told_again_in_the_same_order(
    telling: Telling, monkeypatch: pytest.MonkeyPatch
) -> None:
    list(telling.writer.write_many("t", [Draft(id=f"m{n}", content=f"note {n}") for n in range(5)]))
    with monkeypatch.context() as broken:

        def killed(*_: object) -> None:
            raise KeyboardInterrupt

        broken.setattr(Relay, "done", killed)
        with pytest.raises(KeyboardInterrupt):
            telling.tell()
    telling.tell()
    assert telling.told()[:5] == telling.told()[5:]


def test_with_the_stream_out_of_reach_nothing_is_lost_and_without_one_it_says_so(telling: Telling) -> None:
    telling.writer.write("t", Draft(id="m1", content="one"))
    telling.stream.out_of_reach = True
    with pytest.raises(Unavailable):
        telling.tell()
    telling.stream.out_of_reach = False
    assert telling.tell().told == 1
    assert step(replace(telling.work, stream=None), "t", 10).skipped is not None


def test_a_fence_of_another_server_is_set_anew(telling: Telling) -> None:
    telling.writer.write("t", Draft(id="m1", content="one"))
    Relay(telling.database).fence()
    with psycopg.connect(telling.url) as session:
        session.execute("UPDATE event_fence SET xid = '99999999999'::xid8, safe = 0")
    telling.tell()
    assert telling.tell().done
    assert len(telling.told()) == 1


def test_events_arrive_on_a_real_stream_which_is_trimmed(telling: Telling, valkey_url: str) -> None:
    import redis

    list(telling.writer.write_many("T/x", [Draft(id=f"m{n}", content=f"note {n}") for n in range(600)]))
    server = RedisServer(valkey_url, timeout=timedelta(seconds=5))
    streams = RedisStreams(server, prefix="memory:", keep=100)
    assert step(replace(telling.work, stream=streams), "T/x", 1000).told == 600
    with redis.Redis.from_url(valkey_url, decode_responses=True) as client:
        entries = client.xrange(streams.name("T/x"))
    assert 100 <= len(entries) < 300
    assert entries[-1][1]["id"] == sorted(f"m{n}" for n in range(600))[-1]
    assert set(entries[0][1]) == {"seq", "kind", "id", "version", "at"}
    server.close()
    gone = RedisStreams(RedisServer("redis://127.0.0.1:1", timeout=timedelta(seconds=1)), prefix="m:", keep=10)
    telling.writer.write("t", Draft(id="m1", content="one"))
    with pytest.raises(Unavailable):
        step(replace(telling.work, stream=gone), "t", 10)
