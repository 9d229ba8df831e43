"""A reindex on a real database and a real index, with fake embedders of several spaces."""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg

from core.adapters.no_cache import NoCache
from core.batch import reindex
from core.batch.embed import EmbedWork
from core.batch.reindex import Job, ReindexWork
from core.index.gate import Gate
from core.index.indexer import Indexer
from core.index.removal import Remover
from core.index.siblings import SiblingVectors
from core.index.swap import Swapper
from core.model.generation import Generation, GenerationState
from core.model.memory import Draft, embedding_id
from core.model.query import Filters
from core.model.reindex import GateBounds, GateVerdict, SwapOutcome
from core.model.space import EmbeddingSpace
from core.ports import VectorIndex
from core.read.reader import Reader
from core.record import memories
from core.record.backfill import Backfill
from core.record.building import Building
from core.record.generations import generations
from core.record.removals import Removals
from core.record.swaps import Swaps
from tests.batch.conftest import Parts, assemble
from tests.contract.fake_embedder import FakeEmbedder

NOW = datetime(2026, 6, 1, tzinfo=UTC)
GRACE = timedelta(hours=24)
BOUNDS = GateBounds(overlap=0.0, sample=200, probes=10)


@dataclass
class Rig:
    """What a reindex works with, and the questions tests ask of it. Tenant `t` unless named."""

    parts: Parts
    models: dict[str, FakeEmbedder]
    work: ReindexWork
    remover: Remover
    reader: Reader
    chance: random.Random = field(default_factory=lambda: random.Random(1))

    def space(self, model: str) -> EmbeddingSpace:
        return next(one.space for one in self.models.values() if one.space.model == model)

    def begin(self, model: str = "new", tenant: str = "t", runner: uuid.UUID | None = None) -> Job | None:
        return reindex.begin(self.work, tenant, self.space(model), runner or uuid.uuid4())

    def begun(self, model: str = "new", tenant: str = "t") -> Job:
        job = self.begin(model, tenant)
        assert job is not None
        return job

    def catch_up(self, job: Job, rounds: int = 200) -> None:
        for _ in range(rounds):
            if reindex.step(self.work, job).done:
                return
            self.parts.drain(job.generation.tenant, records=200)
        raise AssertionError("it never caught up")

    def verify(self, job: Job) -> GateVerdict:
        return reindex.verify(self.work, job, self.chance, NOW)

    def swap(self, job: Job) -> SwapOutcome:
        return reindex.swap(self.work, job, GRACE)

    def whole(self, model: str = "new", tenant: str = "t") -> Job:
        """A reindex from its beginning to its end."""
        job = self.begun(model, tenant)
        self.catch_up(job)
        verdict = self.verify(job)
        assert verdict.passed, verdict.reasons
        assert self.swap(job) is SwapOutcome.SWAPPED
        return job

    def generations(self, tenant: str = "t") -> dict[int, GenerationState]:
        return {one.number: one.state for one in self._known(tenant)}

    def live(self, tenant: str = "t") -> Generation:
        return next(one for one in self._known(tenant) if one.state is GenerationState.LIVE)

    def drain(self, tenant: str = "t") -> None:
        for _ in range(50):
            if self.parts.drain(tenant).worked == 0:
                return

    def assert_in_step(self, tenant: str = "t") -> None:
        """Promise 2: every generation that is written to holds exactly what the record says, ids and versions."""
        assert [one.waiting for one in self.parts.outbox.backlog([tenant])] == [0]
        with self.parts.database.tenant(tenant) as session:
            rows = session.execute("SELECT id FROM memory").fetchall()
            standing = memories.standings(session, tenant, [row["id"] for row in rows])
        expected = {embedding_id(tenant, name): one.version for name, one in standing.items() if one.indexed}
        for generation in self._known(tenant):
            if generation.state is not GenerationState.DROPPED:
                held = {point: stamp.version for point, stamp in self.parts.index.scroll(generation.collection)}
                if generation.state is GenerationState.ABORTED:  # given up before it held everything
                    assert held.items() <= expected.items(), generation
                else:
                    assert held == expected, generation

    def _known(self, tenant: str) -> list[Generation]:
        with self.parts.database.tenant(tenant) as session:
            return generations(session, tenant)


def rig_of(parts: Parts, *, lease: timedelta = timedelta(seconds=60), index: VectorIndex | None = None) -> Rig:
    """A rig around parts; three models: the one of the parts (`fake`), `new` and `other`."""
    index = index or parts.index
    models = [parts.embedder, FakeEmbedder(48, "new"), FakeEmbedder(32, "other")]
    by_space = {one.space.fingerprint: one for one in models}

    def embedder_of(space: EmbeddingSpace) -> FakeEmbedder:
        return by_space[space.fingerprint]

    database = parts.database
    known = (SiblingVectors(database, index),)
    indexer = Indexer(database, parts.outbox, index, embedder_of, known)
    parts.work = EmbedWork(
        outbox=parts.outbox, indexer=indexer, new_id=uuid.uuid4, batch=20, retry_wait=timedelta(milliseconds=10)
    )
    work = ReindexWork(
        index=index,
        building=Building(database, lease),
        backfill=Backfill(database, size=20, page=7),
        gate=Gate(database=database, index=index, embedder_of=embedder_of, clock=time.monotonic, bounds=BOUNDS),
        swapper=Swapper(database, index, Swaps(database, lease)),
        ahead=30,
    )
    reader = Reader(database, index, NoCache(), embedder_of, time.monotonic)
    return Rig(parts, by_space, work, Remover(database, index, Removals(database)), reader)


@contextmanager
def opened_rig(database_url: str, root: Path, lease: timedelta = timedelta(seconds=60)) -> Iterator[Rig]:
    parts = assemble(database_url, root, lease)
    try:
        yield rig_of(parts, lease=lease)
    finally:
        parts.index.close()
        parts.database.close()


def bounded(rig: Rig, **bounds: float) -> None:
    """Other bounds for the gate."""
    gate = replace(rig.work.gate, bounds=replace(rig.work.gate.bounds, **bounds))
    rig.work = replace(rig.work, gate=gate)


def write(rig: Rig, count: int = 60, tenant: str = "t") -> None:
    """Memories m000, m001, … that are in the index."""
    drafts = [
        Draft(id=f"m{number:03}", content=f"entry {number * 37} page {number * 91} a note about subject {number}")
        for number in range(count)
    ]
    list(rig.parts.writer.write_many(tenant, drafts))
    rig.drain(tenant)


def gated(rig: Rig) -> Job:
    """A generation that has caught up, of forty memories."""
    write(rig, 40)
    job = rig.begun()
    rig.catch_up(job)
    return job


def found(rig: Rig, text: str, limit: int) -> list[str]:
    return [hit.memory.id for hit in rig.reader.search("t", text, limit, Filters()).found]


def execute(database_url: str, statement: str) -> None:
    """A statement by a superuser, committed."""
    with psycopg.connect(database_url) as session:
        session.execute(statement.encode())
