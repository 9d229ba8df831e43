"""Promises 2, 3, 4, 7 and 8 while everybody is at work: a whole reindex, a killed one taken up, and a second one."""

from __future__ import annotations

import random
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np

from core.errors import Conflict, NotFound
from core.model.memory import Draft
from core.model.point import Hit, Vector
from core.model.query import Filters, Selection
from tests.batch.conftest import assemble
from tests.batch.reindexing import Rig, execute, rig_of, write
from tests.batch.test_reindex_killed import VICTIM, leases_run_out
from tests.forks import ended

QUESTIONS = ("a note about subject 3", "entry 37 page 91", "written in the storm", "changed again")
MODELS = {1: "fake", 2: "new", 3: "other"}


class WatchedIndex:
    """An index that notes each search whose vector is not of the model its collection was built with."""

    def __init__(self, index: Any) -> None:
        self._index = index
        self.expected: dict[str, list[Vector]] = {}
        self.searches = 0
        self.mixed: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._index, name)

    def search(self, collection: str, vector: Vector, selection: Selection, limit: int) -> list[Hit]:
        self.searches += 1
        known = self.expected[MODELS[int(collection.rpartition(".g")[2])]]
        if not any(one.shape == vector.shape and np.allclose(one, vector, atol=1e-5) for one in known):
            self.mixed.append(collection)
        found: list[Hit] = self._index.search(collection, vector, selection, limit)
        return found


class Storm:
    """Writers, updaters, deleters and searchers, each in a thread of its own, until told to stop."""

    def __init__(self, rig: Rig) -> None:
        self._rig = rig
        self._stop = threading.Event()
        self.gone: set[str] = set()
        self.failures: list[str] = []
        self.searches = 0

    @contextmanager
    def raging(self) -> Iterator[None]:
        work: Sequence[Callable[[random.Random], None]] = (
            self.write,
            self.update,
            self.delete,
            self.search,
            self.search,
        )
        threads = [threading.Thread(target=self._until_stopped, args=(one, n)) for n, one in enumerate(work)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._stop.set()
            for thread in threads:
                thread.join(30)
        assert not any(thread.is_alive() for thread in threads)

    def write(self, chance: random.Random) -> None:
        name = f"s{chance.randrange(10**9)}"
        self._rig.parts.writer.write("t", Draft(id=name, content=f"written in the storm {words(chance)}"))

    def update(self, chance: random.Random) -> None:
        name = f"m{chance.randrange(60):03}"
        try:
            version = self._rig.reader.get("t", name).version
            content = f"changed again {words(chance)}"
            self._rig.parts.writer.update("t", name, {"content": content}, version)
        except (NotFound, Conflict):
            return  # deleted, or changed by another hand

    def delete(self, chance: random.Random) -> None:
        name = f"m{chance.randrange(60):03}"
        self._rig.parts.writer.delete("t", name)
        self.gone.add(name)

    def search(self, chance: random.Random) -> None:
        gone = set(self.gone)
        answer = self._rig.reader.search("t", chance.choice(QUESTIONS), 20, Filters())
        self.searches += 1
        if answer.degraded is not None:
            self.failures.append(f"degraded: {answer.degraded}")
        found = answer.found
        if back := gone & {hit.memory.id for hit in found}:
            self.failures.append(f"deleted and found: {sorted(back)}")

    def _until_stopped(self, work: Callable[[random.Random], None], seed: int) -> None:
        chance = random.Random(seed)
        while not self._stop.wait(0.02 if work == self.search else 0.05):
            try:
                work(chance)
            except Exception as problem:  # noqa: BLE001  whatever it is, it must not happen
                self.failures.append(f"{work.__name__}: {problem!r}")
                return


def words(chance: random.Random) -> str:
    return " ".join(str(chance.randrange(1000)) for _ in range(4))


def killed_reindex(database_url: str, root: Path, step: str) -> None:
    owner, _, call = step.partition(".")
    assert ended(VICTIM, database_url, str(root), "after", owner, call) == -9
    leases_run_out(database_url)


def test_under_a_storm_no_search_fails_and_both_generations_agree_in_the_end(database_url: str, tmp_path: Path) -> None:
    root = tmp_path / "vectors"
    parts = assemble(database_url, root, lease=timedelta(seconds=60))
    index = WatchedIndex(parts.index)
    rig = rig_of(parts)
    rig.reader._legs.vector._index = index  # type: ignore[assignment]  searches alone, not the gate's probes
    for model in rig.models.values():
        index.expected[model.space.model] = [model.embed([text], "query").vectors[0] for text in QUESTIONS]
    write(rig)
    storm = Storm(rig)
    with storm.raging():
        killed_reindex(database_url, root, "EdgeIndex.upsert")
        killed_reindex(database_url, root, "Outbox.finish")
        first = _whole(rig, "new")
        _whole(rig, "other")
        execute(database_url, "UPDATE generation SET retire_at = now() WHERE number = 1")
        rig.remover.sweep()
        rig.work.swapper.rollback("t", timedelta(hours=1), uuid.uuid4(), {}, force=True)
    assert storm.failures == []
    assert index.mixed == []
    assert min(storm.searches, index.searches) > 20
    rig.drain()
    rig.assert_in_step()
    assert rig.live().number == first
    held = {stamp for _, stamp in index.scroll(rig.live().collection)}
    assert held
    found = rig.reader.search("t", QUESTIONS[0], 500, Filters()).found
    assert not storm.gone & {hit.memory.id for hit in found}
    parts.index.close()
    parts.database.close()


def _whole(rig: Rig, model: str) -> int:
    """A reindex as its run does it: a gate that mends what it finds is asked again."""
    job = rig.begun(model)
    said = []
    for _ in range(5):
        rig.catch_up(job)
        verdict = rig.verify(job)
        if verdict.passed:
            rig.swap(job)
            return job.generation.number
        said.append(verdict.reasons)
    raise AssertionError(f"the gate was never passed: {said}")
