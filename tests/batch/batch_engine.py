"""An engine whose model is at the local OpenAI server, with its batch endpoints; and what tests of the lane ask."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import psycopg

from core.assembly import Engine
from core.batch.batch_lane import Followed, Submitted, Submitting, follow, step
from core.batch.embed import Portion, Report
from core.batch.embed import step as drain_step
from core.model.batch import BatchJob
from core.model.memory import Draft, embedding_id
from core.model.names import collection_name, index_group
from core.record import memories
from tests.openai_batches import Batches

KEY = "sk-nobody-may-see-this"
MODEL = {"embedding_provider": "openai", "embedding_model": "text-embedding-3-small", "embedding_dimensions": 32}


@dataclass
class Lane:
    """An open engine, the provider's batch endpoints, and a superuser's connection to the record."""

    engine: Engine
    provider: Batches
    admin: psycopg.Connection[Any]
    chosen: dict[str, Any]

    def remember(self, *names: str, tenant: str = "t", text: str = "a note about") -> None:
        list(self.engine.write_many(tenant, [Draft(id=name, content=f"{text} {name}") for name in names]))

    def submit(self, tenant: str = "t", records: int = 100_000) -> Submitted:
        return step(self.engine.batch_work(), Submitting(tenant=tenant, records=records))

    def follow(self) -> list[Followed]:
        """Look at every open job once."""
        return [follow(self.engine.batch_work(), job) for job in self.engine.batch_jobs(open_only=True)]

    def drain(self, tenant: str = "t") -> Report:
        """The ordinary drain."""
        return drain_step(self.engine.embed_work(), Portion(tenant=tenant, records=100_000))

    def jobs(self) -> list[BatchJob]:
        return list(self.engine.batch_jobs())

    def job(self) -> BatchJob:
        (job,) = self.jobs()
        return job

    def online(self) -> list[str]:
        """Texts that were embedded in requests of their own."""
        return self.provider.server.texts

    def waiting(self, tenant: str = "t") -> tuple[int, int, int]:
        """Entries that wait, of these held for a job, and set aside."""
        (one,) = self.engine.backlog([tenant])
        return one.waiting, one.in_batch, one.set_aside

    def run(self, statement: str, *values: object) -> list[Any]:
        cursor = self.admin.execute(statement.encode(), values)
        return cursor.fetchall() if cursor.description else []

    def leases_run_out(self) -> None:
        self.run("UPDATE outbox SET lease_until = now() - interval '1 second' WHERE lease_until IS NOT NULL")
        self.run("UPDATE batch_job SET lease_until = now() - interval '1 second' WHERE lease_until IS NOT NULL")

    def the_deadline_passes(self) -> None:
        self.run(
            "UPDATE outbox SET ready_at = now(), batch_until = now() WHERE batch_item IS NOT NULL AND ready_at > now()"
        )
        self.run("UPDATE batch_job SET deadline = now()")

    def assert_in_step(self, tenant: str = "t", without: Sequence[str] = ()) -> None:
        """Point and row agree, and every vector is that of the memory's text."""
        index = self.engine._indexer._index
        with self.engine._database.tenant(tenant) as session:
            rows = session.execute("SELECT id, content FROM memory WHERE deleted_at IS NULL").fetchall()
            standing = memories.standings(session, tenant, [row["id"] for row in rows])
        collection = collection_name(index_group(tenant), 1)
        stamps = {point: stamp.version for point, stamp in index.scroll(collection)}
        expected = {row["id"]: row["content"] for row in rows if row["id"] not in without}
        assert stamps == {embedding_id(tenant, name): standing[name].version for name in expected}
        vectors = index.vectors(collection, list(stamps))
        for name, content in expected.items():
            right = self.provider.server.vector(content, 32, MODEL["embedding_model"])
            assert abs(vectors[embedding_id(tenant, name)] - right).max() < 1e-5, name


def as_argument(chosen: dict[str, Any]) -> str:
    """Settings for another process."""
    return json.dumps(chosen, default=str)
