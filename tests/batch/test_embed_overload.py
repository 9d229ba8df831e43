"""A provider that asks for less slows a run down and ends it only in the end; nothing is lost or paid twice."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from core.batch.embed import Portion, step
from core.errors import Overloaded
from core.index.patience import LONGEST_SECONDS, MOST_WAITS, Patience
from core.model.memory import Draft
from tests.batch.conftest import Parts

ALL = Portion(tenant="t", records=10_000)


class Clock:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def waits(hints: Sequence[float | None], chance: float = 0.0) -> list[float]:
    """How long each of these refusals, one after the other, has a run wait; -1: it gives up."""
    clock = Clock()
    patience = Patience(clock, lambda: chance)
    told = []
    for hint in hints:
        if not patience.asked_for_less(hint):
            return [*told, -1]
        told.append(round(patience._until - clock.now, 2))
        clock.now = patience._until
    return told


def test_the_hint_is_waited_for_at_least_and_never_more_than_a_quarter_longer() -> None:
    assert waits([7.0, 0.5]) == [7.0, 0.5]
    assert waits([8.0], chance=1.0) == [10.0]


def test_without_a_hint_waits_double_up_to_a_minute() -> None:
    assert waits([None] * 8) == [1, 2, 4, 8, 16, 32, 60, 60]


@pytest.mark.parametrize("hint", [LONGEST_SECONDS + 1, 999_999])
def test_a_hint_too_long_to_wait_for_ends_the_run(hint: float) -> None:
    assert waits([hint]) == [-1]


def test_it_gives_up_after_so_many_waits_with_nothing_done_in_between() -> None:
    assert waits([0.1] * (MOST_WAITS + 1))[-1] == -1
    clock = Clock()
    patience = Patience(clock, lambda: 0.0)
    for _ in range(3 * MOST_WAITS):
        assert patience.asked_for_less(0.1)
        clock.now += 1
        patience.eased()


def test_refusals_of_requests_under_way_count_as_one() -> None:
    clock = Clock()
    patience = Patience(clock, lambda: 0.0)
    assert all(patience.asked_for_less(None) for _ in range(50))
    assert patience._until == clock.now + 1


def test_a_run_goes_through_a_storm_of_refusals(parts: Parts) -> None:
    turn = threading.Lock()
    calls = 0

    def refuse_two_of_three(texts: Sequence[str]) -> None:
        nonlocal calls
        with turn:
            calls += 1
            if calls % 3:
                raise Overloaded("slow down", retry_after=0.01)

    parts.embedder.before = refuse_two_of_three
    list(parts.writer.write_many("t", [Draft(id=f"m{n}", content=f"note {n}") for n in range(100)]))
    report = step(replace(parts.work, batch=10), ALL)
    assert (report.embedded, report.postponed, report.set_aside_count) == (100, None, 0)
    parts.assert_in_step()


def test_a_provider_that_never_gives_way_ends_the_run_with_its_reason(parts: Parts) -> None:
    def refuse(texts: Sequence[str]) -> None:
        raise Overloaded("slow down", retry_after=0.001)

    parts.embedder.before = refuse
    list(parts.writer.write_many("t", [Draft(id=f"m{n}", content=f"note {n}") for n in range(10)]))
    report = step(replace(parts.work, workers=1), ALL)
    assert (report.embedded, report.postponed) == (0, "slow down")
    assert parts.embedder.calls == MOST_WAITS + 1
    parts.embedder.before = lambda texts: None
    time.sleep(0.05)
    parts.drain()
    parts.assert_in_step()


def test_an_interrupted_run_does_not_wait(parts: Parts) -> None:
    asked = threading.Event()

    def refuse(texts: Sequence[str]) -> None:
        asked.set()
        raise Overloaded("slow down", retry_after=50)

    class Interrupted(Exception):
        """Stands for Ctrl-C."""

    def check() -> None:
        if asked.is_set():
            raise Interrupted

    parts.embedder.before = refuse
    list(parts.writer.write_many("t", [Draft(id=f"m{n}", content=f"note {n}") for n in range(40)]))
    work = replace(parts.work, workers=2, batch=10, check=check)
    started = time.monotonic()
    with ThreadPoolExecutor(1) as pool, pytest.raises(Interrupted):
        pool.submit(step, work, ALL).result(30)
    assert time.monotonic() - started < 20
