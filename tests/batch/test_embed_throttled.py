"""The drain within a provider's limits: it waits for its turn, tells all workers of a refusal, and loses nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import numpy as np
import pytest

from core.adapters.local_throttle import LocalThrottle
from core.batch.embed import Portion, step
from core.errors import Overloaded, Unavailable
from core.index.indexer import Indexer
from core.index.throttled import COOL_DOWN, PATIENCE, ThrottledEmbedder, Throttling
from core.model.memory import Draft
from core.model.quota import Quota, Wait
from tests.batch.conftest import Parts
from tests.contract.fake_embedder import FakeEmbedder

KEY = "one-provider"


class Clock:
    """Virtual time: who sleeps moves it on."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


def throttled(inner: FakeEmbedder, clock: Clock, **limits: Any) -> tuple[ThrottledEmbedder, LocalThrottle]:
    throttle = LocalThrottle(clock=clock)
    by = Throttling(throttle=throttle, key=KEY, quota=Quota(**limits))
    return ThrottledEmbedder(inner, by, clock.sleep), throttle


def test_requests_wait_for_their_turn_and_the_limit_is_kept() -> None:
    clock, inner = Clock(), FakeEmbedder()
    times: list[float] = []
    inner.before = lambda texts: times.append(clock.now)
    embedder, _ = throttled(inner, clock, requests_per_minute=60)
    for number in range(180):
        assert embedder.embed([f"text {number}"], "document").vectors.shape == (1, 32)
    for start in times:
        assert sum(start <= moment < start + 60 for moment in times) <= 60
    assert 110 <= times[-1] - times[0] <= 180  # 180 requests at 60 a minute


def test_tokens_count_as_the_provider_counted_them() -> None:
    clock, inner = Clock(), FakeEmbedder()
    embedder, _ = throttled(inner, clock, tokens_per_minute=1000)
    text = "word " * 100  # estimated at 125 tokens, counted as 100
    begun = clock.now
    for _ in range(20):
        embedder.embed([text], "document")
    assert 80 <= clock.now - begun <= 135  # 150 if the estimate stood


def test_a_refusal_is_told_to_everybody_on_the_key() -> None:
    clock, inner = Clock(), FakeEmbedder()
    embedder, throttle = throttled(inner, clock)

    def refuse(texts: Sequence[str]) -> None:
        raise Overloaded("slow down", retry_after=7.0)

    inner.before = refuse
    with pytest.raises(Overloaded):
        embedder.embed(["text"], "document")
    assert throttle.cooling([KEY, "another"]) == {KEY}
    inner.before = lambda texts: None
    embedder.embed(["text"], "document")
    assert 7.0 <= sum(clock.slept) < 7.1


def test_a_refusal_without_a_hint_cools_down_a_moment() -> None:
    clock, inner = Clock(), FakeEmbedder()
    embedder, _ = throttled(inner, clock)

    def refuse(texts: Sequence[str]) -> None:
        raise Overloaded("slow down")

    inner.before = refuse
    for _ in range(2):
        with pytest.raises(Overloaded):
            embedder.embed(["text"], "document")
    assert COOL_DOWN <= sum(clock.slept) < COOL_DOWN + 0.1


@pytest.mark.parametrize("kind", ["document", "query"])
def test_a_turn_too_far_away_is_not_waited_for(kind: Any) -> None:
    clock, inner = Clock(), FakeEmbedder()
    embedder, throttle = throttled(inner, clock)
    throttle.cool_down(KEY, 300)
    with pytest.raises(Overloaded) as raised:
        embedder.embed(["text"], kind)
    assert raised.value.retry_after == pytest.approx(300, abs=1)
    assert sum(clock.slept) <= PATIENCE[kind]
    assert inner.calls == 0


def test_who_gives_up_waiting_holds_nobody_up() -> None:
    clock, inner = Clock(), FakeEmbedder()
    embedder, throttle = throttled(inner, clock, requests_per_minute=1)
    quota = Quota(requests_per_minute=1)
    embedder.embed(["the one of this minute"], "document")
    for _ in range(5):
        with pytest.raises(Overloaded):
            embedder.embed(["too late"], "document")
    told = throttle.take(KEY, 1, "bulk", quota, "another")
    assert isinstance(told, Wait)
    assert told.seconds <= 62


def test_a_slot_is_given_back_whatever_becomes_of_the_request() -> None:
    clock, inner = Clock(), FakeEmbedder()
    embedder, _ = throttled(inner, clock, at_once=1)

    def fail(texts: Sequence[str]) -> None:
        raise Unavailable("gone")

    inner.before = fail
    for _ in range(3):
        with pytest.raises(Unavailable):
            embedder.embed(["text"], "document")
    assert clock.slept == []


def test_a_query_gets_through_while_bulk_work_has_used_up_the_rest() -> None:
    clock, inner = Clock(), FakeEmbedder()
    embedder, throttle = throttled(inner, clock, requests_per_minute=20, kept_for_queries=0.2)
    quota = Quota(requests_per_minute=20, kept_for_queries=0.2)
    granted = sum(hasattr(throttle.take(KEY, 1, "bulk", quota, f"worker {n}"), "id") for n in range(50))
    assert granted >= 1
    embedder.embed(["question"], "query")
    assert clock.slept == []


def test_a_drain_on_two_workers_keeps_to_the_limits_and_everything_arrives(parts: Parts) -> None:
    """In real time, with a short minute."""
    throttle = LocalThrottle(window=timedelta(seconds=1))
    quota = Quota(requests_per_minute=20, at_once=1)
    busy: list[int] = []
    under_way = [0]

    def watch(texts: Sequence[str]) -> None:
        under_way[0] += 1
        busy.append(under_way[0])
        under_way[0] -= 1

    parts.embedder.before = watch
    embedder = ThrottledEmbedder(parts.embedder, Throttling(throttle=throttle, key=KEY, quota=quota))
    indexer = Indexer(parts.database, parts.outbox, parts.index, lambda space: embedder)
    list(parts.writer.write_many("t", [Draft(id=f"m{n}", content=f"note {n}") for n in range(60)]))
    report = step(replace(parts.work, indexer=indexer, batch=5), Portion(tenant="t", records=1000))
    assert (report.embedded, report.postponed) == (60, None)
    assert set(busy) == {1}
    assert np.isfinite(embedder.embed(["text"], "query").vectors).all()
    parts.assert_in_step()
