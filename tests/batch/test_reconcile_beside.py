"""No false repair: reconcile beside heavy writes, a drain, a reindex with its swap, and a recovery."""

from __future__ import annotations

import contextlib
import random
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from core.errors import Conflict, EngineError, NotFound
from core.model.drift import Depth, Kind, StoreReport, Verdict
from core.model.memory import Draft
from tests.batch.drifting import RULES, Drifting, by_kind, opened

ROUNDS = 40


@pytest.fixture
def drift(database_url: str, tmp_path: Path) -> Iterator[Drifting]:
    # A second is long beside the milliseconds between a commit and what follows it here.
    with opened(database_url, tmp_path, rules=replace(RULES, minimum_age=timedelta(milliseconds=300))) as rig:
        yield rig


class Busy:
    """Writers, updaters, deleters and a drain until told to stop."""

    def __init__(self, drift: Drifting) -> None:
        self.drift, self._stop, self.failures = drift, threading.Event(), list[str]()
        self._threads = [threading.Thread(target=self._go_on, args=(one,)) for one in (self.write, self.drain)]

    def __enter__(self) -> None:
        for one in self._threads:
            one.start()

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for one in self._threads:
            one.join(60)
        assert not any(one.is_alive() for one in self._threads)

    def _go_on(self, work: object) -> None:
        chance = random.Random(3)
        while not self._stop.is_set():
            try:
                work(chance)  # type: ignore[operator]
            except EngineError as problem:
                self.failures.append(repr(problem))

    def write(self, chance: random.Random) -> None:
        writer = self.drift.parts.writer
        some = f"m{chance.randrange(400):04}"
        match chance.randrange(4):
            case 0:
                drafts = [
                    Draft(
                        id=f"m{chance.randrange(400):04}",
                        content=f"entry {chance.randrange(10**6)} page {chance.randrange(10**6)}",
                    )
                    for _ in range(9)
                ]
                list(writer.write_many("t", list({one.id: one for one in drafts}.values())))
            case 1:
                writer.write(
                    "t", Draft(id=some, content=f"entry {chance.randrange(10**6)} page {chance.randrange(10**6)}")
                )
            case 2:
                writer.delete("t", some)
            case _:
                with contextlib.suppress(Conflict, NotFound):
                    writer.update("t", some, {"importance": chance.random()}, 1)

    def drain(self, chance: random.Random) -> None:
        self.drift.parts.drain(records=40)


def found(reports: list[StoreReport]) -> dict[Kind, tuple[int, int]]:
    return {kind: counts for one in reports for kind, counts in by_kind(one).items()}


def test_beside_heavy_writes_and_a_reindex_nothing_is_repaired_that_was_not_wrong(drift: Drifting) -> None:
    drift.write(200)
    rig, busy = drift.rig, Busy(drift)
    seen: dict[Kind, tuple[int, int]] = {}
    with busy:
        job = rig.begun()
        for number in range(ROUNDS):
            seen |= found(drift.look(list(Depth)[number % 3]))
            if number < ROUNDS // 2:
                rig.work.backfill.feed(job.generation, 20)
    rig.catch_up(job)
    seen |= found(drift.look(Depth.FULL))
    verdict = rig.verify(job)
    assert verdict.passed, verdict.reasons
    rig.swap(job)
    seen |= found(drift.look(Depth.FULL))
    assert seen == {}
    assert busy.failures == []
    assert drift.sql("SELECT count(*) FROM orphan") == [(0,)]
    rig.drain()
    drift.assert_in_step()
    assert [one.verdict for one in drift.look(Depth.FULL) if one.store == "index"] == [Verdict.CLEAN] * 2


def test_real_drift_is_mended_beside_heavy_writes(drift: Drifting) -> None:
    drift.write(400)
    with Busy(drift):
        drift.add_orphans(3)
        for _ in range(10):
            drift.look()
            drift.remove()
    drift.rig.drain()
    drift.mend()
    drift.rig.drain()
    drift.assert_in_step()
