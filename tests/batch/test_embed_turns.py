"""One provider for many: tenants take turns at it, and while it cools down the work of others goes on."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from typing import Any

import psycopg
from hypothesis import given, settings
from hypothesis import strategies as st
from psycopg.types.json import Jsonb

from core.adapters.local_throttle import LocalThrottle
from core.batch.embed import Portion, step
from core.index.indexer import Indexer
from core.index.throttled import ThrottledEmbedder, Throttling, in_turn
from core.index.turns import Turns
from core.model.memory import Draft
from core.model.names import collection_name, index_group
from core.model.quota import Quota, Wait
from tests.batch.conftest import Parts
from tests.contract.fake_embedder import FakeEmbedder

KEY = "one-provider"


class Clock:
    """Virtual time: who sleeps moves it on."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def test_one_tenants_storm_does_not_starve_another() -> None:
    """Fifty requests of one tenant stand in line when the other comes with its first."""
    clock, inner = Clock(), FakeEmbedder()
    throttle, quota = LocalThrottle(clock=clock), Quota(requests_per_minute=60)
    for number in range(60):
        throttle.take(KEY, 1, "bulk", quota, f"used-{number}", "storm")
    waits = [throttle.take(KEY, 1, "bulk", quota, f"waits-{number}", "storm") for number in range(50)]
    assert isinstance(waits[-1], Wait)
    begun = clock.now
    embedder = ThrottledEmbedder(inner, Throttling(throttle=throttle, key=KEY, quota=quota), clock.sleep)
    in_turn(embedder, "other").embed(["text"], "document")
    other = clock.now - begun
    assert other < waits[5].seconds if isinstance(waits[5], Wait) else other == 0
    assert other < waits[-1].seconds / 4


def test_the_tenant_is_told_to_the_throttle(parts: Parts) -> None:
    asked: list[str | None] = []

    class Noting(LocalThrottle):
        def take(self, *given: Any, **named: Any) -> Any:
            asked.append(given[5])
            return super().take(*given, **named)

    throttling = Throttling(throttle=Noting(), key=KEY, quota=Quota())
    embedder = ThrottledEmbedder(parts.embedder, throttling)
    indexer = Indexer(parts.database, parts.outbox, parts.index, lambda space: embedder)
    for tenant in ("t", "u"):
        parts.writer.write(tenant, Draft(id="m", content=f"words of {tenant}"))
        step(replace(parts.work, indexer=indexer), Portion(tenant=tenant, records=10))
    assert asked == ["t", "u"]


def test_a_free_slot_goes_to_the_tenant_whose_turn_it_is() -> None:
    turns, served = Turns(1), []

    def work(tenant: str) -> None:
        with turns.taken(tenant, 20) as ours:
            assert ours
            served.append(tenant)

    with ThreadPoolExecutor(12) as pool, turns.taken("first", 1):
        for tenant in ["storm"] * 10 + ["other"]:
            pool.submit(work, tenant)
        while sum(map(len, turns._waiting.values())) < 11:  # all of them stand in line
            time.sleep(0.001)
    assert sorted(served) == ["other"] + ["storm"] * 10
    assert served.index("other") <= 1


def test_who_waits_too_long_for_a_slot_takes_none() -> None:
    turns = Turns(1)
    with turns.taken("a", 0) as first, turns.taken("b", 0) as second:
        assert (first, second) == (True, False)
    with turns.taken("b", 0) as third:
        assert third


@settings(max_examples=20, deadline=None)
@given(slots=st.integers(1, 3), tenants=st.lists(st.sampled_from("abc"), min_size=1, max_size=12))
def test_slots_are_never_passed_and_none_is_lost(slots: int, tenants: list[str]) -> None:
    turns, under_way, most, lock = Turns(slots), [0], [0], threading.Lock()

    def work(tenant: str) -> bool:
        with turns.taken(tenant, 20) as ours:
            with lock:
                under_way[0] += 1
                most[0] = max(most[0], under_way[0])
            with lock:
                under_way[0] -= 1
            return ours

    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(work, tenants))
    assert most[0] <= slots
    assert (turns._free, dict(turns._waiting)) == (slots, {})


def second_generation(database_url: str, parts: Parts, model: str) -> FakeEmbedder:
    """A second generation of tenant t, with a model at another provider; its work is what the first one has."""
    other = FakeEmbedder(model=model)
    with psycopg.connect(database_url) as session:
        values = [index_group("t"), Jsonb(other.space.as_dict()), other.space.fingerprint]
        session.execute(
            "INSERT INTO generation (tenant, number, index_group, space, fingerprint, state)"
            " VALUES ('t', 2, %s, %s, %s, 'building')",
            values,
        )
        session.execute(
            "INSERT INTO outbox (tenant, generation, memory_id, lane) SELECT tenant, 2, memory_id, 0 FROM outbox"
        )
    assert asdict(other.space) != asdict(parts.embedder.space)
    return other


def test_a_provider_that_cools_down_is_left_out_of_the_claim_and_the_other_goes_on(
    parts: Parts, database_url: str
) -> None:
    list(parts.writer.write_many("t", [Draft(id=f"m{n}", content=f"note {n}") for n in range(30)]))
    other = second_generation(database_url, parts, "elsewhere")
    models = {one.space.fingerprint: one for one in (parts.embedder, other)}
    indexer = Indexer(parts.database, parts.outbox, parts.index, lambda space: models[space.fingerprint])
    cooling = {parts.embedder.space.fingerprint}
    done_first: list[int] = []

    def cool() -> set[str]:
        """The first provider has cooled down once the other's work is done."""
        if cooling and len(list(parts.index.scroll(collection_name(index_group("t"), 2)))) == 30:
            done_first.append(parts.embedder.calls)
            cooling.clear()
        return set(cooling)

    parts.index.create(collection_name(index_group("t"), 2), other.space.dimensions)
    report = step(replace(parts.work, indexer=indexer, cooling=cool), Portion(tenant="t", records=1000))
    assert (report.embedded, report.postponed, report.done) == (60, None, True)
    assert done_first == [0]
    assert [one.waiting for one in parts.outbox.backlog(["t"])] == [0]


def test_a_run_does_not_wait_for_ever_for_a_provider_and_says_so(parts: Parts, monkeypatch: Any) -> None:
    monkeypatch.setattr("core.batch.embed.COOLING_SECONDS", 0.02)
    monkeypatch.setattr("core.batch.embed.LONGEST_COOLING", 0.1)
    parts.writer.write("t", Draft(id="m", content="words"))
    name = parts.embedder.space.fingerprint
    report = step(replace(parts.work, cooling=lambda: {name}), Portion(tenant="t", records=10))
    assert (report.embedded, report.postponed, report.done) == (0, "the provider asks for less", False)
    assert step(replace(parts.work, cooling=lambda: {name}), Portion(tenant="other", records=10)).done
