"""Any order of writes, deletes, archiving, drains, backfill, swaps, rollbacks and crashes keeps the promises."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from core.batch import reindex
from core.batch.reindex import Job
from core.errors import Busy, Conflict, LeaseLost, NotFound
from core.model.generation import GenerationState as State
from core.model.memory import Draft, embedding_id
from core.model.query import Filters
from tests.batch.conftest import assemble
from tests.batch.reindexing import GRACE, Rig, execute, rig_of
from tests.batch.test_reindex_killed import leases_run_out

NAMES = st.sampled_from([f"m{number}" for number in range(6)])
WORDS = st.sampled_from(["green tea", "black coffee", "red wine", "still water"])
MODELS = st.sampled_from(["fake", "new", "other"])


class Orders(RuleBasedStateMachine):
    """`alive` is what the record must say: text by id; archived ones apart."""

    database_url: str

    @initialize()
    def open(self) -> None:
        with psycopg.connect(self.database_url) as session:
            session.execute(
                "TRUNCATE memory, memory_version, generation, outbox, event, backfill_range, swap_intent, embedding_use"
            )
        self.root = Path(mkdtemp(prefix="memory-orders-"))
        self.rig: Rig = rig_of(assemble(self.database_url, self.root, timedelta(seconds=60)))
        self.job: Job | None = None
        self.alive: dict[str, str] = {}
        self.archived: set[str] = set()
        self.rig.parts.writer.write("t", Draft(id="m0", content="the first"))
        self.alive["m0"] = "the first"

    @rule(name=NAMES, words=WORDS)
    def write(self, name: str, words: str) -> None:
        if name not in self.archived:  # how an archived one is written over is another chore's business
            self.rig.parts.writer.write("t", Draft(id=name, content=words))
            self.alive[name] = words

    @rule(name=NAMES, importance=st.sampled_from([0.1, 0.9]))
    def update(self, name: str, importance: float) -> None:
        if name in self.alive:
            version = self.rig.reader.get("t", name).version
            self.rig.parts.writer.update("t", name, {"importance": importance}, version)

    @rule(name=NAMES)
    def delete(self, name: str) -> None:
        self.rig.parts.writer.delete("t", name)
        self.alive.pop(name, None)
        self.archived.discard(name)

    @rule(name=NAMES)
    def archive(self, name: str) -> None:
        """As the record sees it: the version rises, and no index holds it any more."""
        if name in self.alive:
            statement = (
                "UPDATE memory SET tier = 'archive', version = next_version(version) WHERE tenant = 't' AND id = %s"
            )
            with psycopg.connect(self.database_url) as session:
                session.execute("SELECT set_config('memory.tenant', 't', true)")
                session.execute(statement, [name])
            self.alive.pop(name)
            self.archived.add(name)

    @rule(records=st.integers(1, 4))
    def drain_step(self, records: int) -> None:
        self.rig.parts.drain(records=records)

    @rule(model=MODELS)
    def begin(self, model: str) -> None:
        self.job = self._tried(lambda: self.rig.begin(model)) or self.job

    @precondition(lambda self: self.job)
    @rule(allowed=st.integers(0, 4))
    def backfill_step(self, allowed: int) -> None:
        self._tried(lambda: reindex.step(self.rig.work, self.job, allowed))

    @precondition(lambda self: self.job)
    @rule()
    def verify_and_swap(self) -> None:
        def both() -> None:
            assert self.job is not None
            if reindex.step(self.rig.work, self.job).done and self.rig.verify(self.job).passed:
                self.rig.swap(self.job)

        self._tried(both)

    @rule()
    def rollback(self) -> None:
        self._tried(lambda: self.rig.work.swapper.rollback("t", GRACE, uuid.uuid4(), {}, force=True))

    @rule()
    def sweep(self) -> None:
        execute(self.database_url, "UPDATE generation SET retire_at = now() WHERE retire_at IS NOT NULL")
        self.rig.remover.sweep()

    @rule(claim=st.booleans())
    def crash(self, claim: bool) -> None:
        """The process dies, perhaps with a claim in hand; a new one opens the stores after the leases ran out."""
        if claim:
            self.rig.parts.outbox.claim(uuid.uuid4(), 3, ["t"])
        self.close()
        leases_run_out(self.database_url)
        self.rig = rig_of(assemble(self.database_url, self.root, timedelta(seconds=60)))
        self.job = None

    @rule(moved=st.booleans())
    def crash_in_a_swap(self, moved: bool) -> None:
        """The intent is recorded, the alias perhaps moved, and the process dies."""
        live = self.rig.live()
        ready = [one for one in self.rig._known("t") if one.state in {State.VERIFIED, State.RETIRING}]
        if ready:
            self._tried(lambda: self.rig.work.swapper.swaps.begin(live, ready[-1], GRACE, uuid.uuid4()))
            if moved:
                self._tried(lambda: self.rig.parts.index.point_alias(live.alias, ready[-1].collection, live.collection))
        self.crash(claim=False)

    @invariant()
    def what_was_deleted_is_found_by_nobody_and_one_generation_serves(self) -> None:
        if not hasattr(self, "rig"):
            return
        answer = self.rig.reader.search("t", "green tea", 20, Filters())
        assert {hit.memory.id for hit in answer.found} <= self.alive.keys() | self.archived
        assert list(self.rig.generations().values()).count(State.LIVE) == 1

    def teardown(self) -> None:
        if not hasattr(self, "rig"):
            return
        try:
            self._end()
        finally:
            self.close()
            shutil.rmtree(self.root)

    def _end(self) -> None:
        """The work that is left is done, and everything agrees."""
        self.crash(claim=False)
        self._tried(lambda: self.rig.work.swapper.settle("t", uuid.uuid4()))
        self.rig.remover.sweep()
        self._drain_all()
        if any(state in {State.BUILDING, State.VERIFIED} for state in self.rig.generations().values()):
            self._finish_what_was_begun()
        self.rig.assert_in_step()
        live = self.rig.live()
        held = {point for point, _ in self.rig.parts.index.scroll(live.collection)}
        assert held == {embedding_id("t", name) for name in self.alive}
        found = self.rig.reader.search("t", "green tea", 20, Filters()).found
        texts = {hit.memory.id: hit.memory.content for hit in found}
        assert texts.keys() <= self.alive.keys() | self.archived  # by its words an archived one may be found
        assert {name: text for name, text in texts.items() if name in self.alive} == self.alive

    def close(self) -> None:
        self.rig.parts.index.close()
        self.rig.parts.database.close()

    def _drain_all(self) -> None:
        """What was claimed in too many crashes is set aside when it is claimed once more; a person tries it again."""
        self.rig.drain()
        self.rig.parts.outbox.retry("t")
        self.rig.drain()

    def _finish_what_was_begun(self) -> None:
        (begun,) = [one for one in self.rig._known("t") if one.state in {State.BUILDING, State.VERIFIED}]
        job = self.rig.begun(begun.space.model)
        assert job.generation.number == begun.number
        self.rig.catch_up(job)
        self._drain_all()
        verdict = self.rig.verify(job)
        assert verdict.passed or not self.alive, verdict.reasons

    def _tried(self, call: Callable[[], Any]) -> Any:
        """What may be refused in this order of events is refused by these errors and no others."""
        try:
            return call()
        except (Busy, Conflict, LeaseLost, NotFound):
            return None


@pytest.mark.timeout(300)
def test_any_order_of_events_keeps_the_promises(database_url: str) -> None:
    Orders.database_url = database_url
    run_state_machine_as_test(
        Orders,
        settings=settings(
            max_examples=12,
            derandomize=True,
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
        ),
    )
