"""An engine's parts around a fake embedder, on a real database and a real index."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from core.adapters.qdrant_edge import EdgeIndex
from core.assembly import open_engine
from core.batch.embed import EmbedWork, Portion, Report, step
from core.index.indexer import Indexer
from core.model.memory import embedding_id
from core.model.names import collection_name, index_group
from core.model.point import Stamp
from core.record import memories
from core.record.database import Database, Limits
from core.record.outbox import Outbox
from core.settings import load_settings
from core.write.writer import Writer
from tests.batch.batch_engine import KEY, MODEL, Lane
from tests.contract.fake_embedder import FakeEmbedder
from tests.openai_batches import Batches
from tests.openai_server import OpenAIServer

if TYPE_CHECKING:
    from tests.batch.lifecycle_parts import Lifecycle
    from tests.batch.reindexing import Rig


@dataclass
class Parts:
    """What the drain is made of, and the questions tests ask of it."""

    database: Database
    index: EdgeIndex
    embedder: FakeEmbedder
    outbox: Outbox
    writer: Writer
    work: EmbedWork

    def drain(self, tenant: str = "t", records: int = 100_000) -> Report:
        return step(self.work, Portion(tenant=tenant, records=records))

    def stamps(self, tenant: str = "t") -> dict[uuid.UUID, Stamp]:
        return dict(self.index.scroll(collection_name(index_group(tenant), 1)))

    def assert_in_step(self, tenant: str = "t") -> None:
        """Promise 2: no faults and an empty outbox mean the same ids and versions on both sides."""
        assert [one.waiting for one in self.outbox.backlog([tenant])] == [0]
        with self.database.tenant(tenant) as session:
            rows = session.execute("SELECT id FROM memory").fetchall()
            standing = memories.standings(session, tenant, [row["id"] for row in rows])
        expected = {embedding_id(tenant, name): one.version for name, one in standing.items() if one.indexed}
        assert {point: stamp.version for point, stamp in self.stamps(tenant).items()} == expected


@contextmanager
def assembled(database_url: str, root: Path) -> Iterator[Parts]:
    """Parts for one test, closed after it."""
    parts = assemble(database_url, root, timedelta(seconds=60))
    yield parts
    parts.index.close()
    parts.database.close()


def assemble(database_url: str, root: Path, lease: timedelta, index: Any = None) -> Parts:
    database = Database(database_url, Limits())
    database.open()
    index = index or EdgeIndex(root, wait=timedelta(seconds=20))
    embedder = FakeEmbedder()
    outbox = Outbox(database, lease)
    counter = itertools.count()
    writer = Writer(database, embedder.space, lambda: f"m{next(counter)}")
    indexer = Indexer(database, outbox, index, lambda space: embedder)
    work = EmbedWork(
        outbox=outbox, indexer=indexer, new_id=uuid.uuid4, batch=20, workers=2, retry_wait=timedelta(milliseconds=10)
    )
    return Parts(database, index, embedder, outbox, writer, work)


@pytest.fixture
def parts(database_url: str, tmp_path: Path) -> Iterator[Parts]:
    with assembled(database_url, tmp_path / "vectors") as parts:
        yield parts


@pytest.fixture
def rig(database_url: str, tmp_path: Path) -> Iterator[Rig]:
    from tests.batch.reindexing import opened_rig

    with opened_rig(database_url, tmp_path / "vectors") as rig:
        yield rig


@pytest.fixture
def provider() -> Iterator[Batches]:
    server = OpenAIServer()
    yield Batches(server)
    server.stop()


@pytest.fixture
def lane(provider: Batches, database_url: str, tmp_path: Path) -> Iterator[Lane]:
    chosen: dict[str, Any] = {
        **MODEL, "home": tmp_path, "postgres_url": database_url, "cache": False, "embed_workers": 1,
        "embedding_url": provider.server.url, "embedding_api_key": KEY,
    }  # fmt: skip
    with open_engine(load_settings(**chosen)) as engine, psycopg.connect(database_url, autocommit=True) as admin:
        yield Lane(engine, provider, admin, chosen)


@pytest.fixture
def life(database_url: str, tmp_path: Path) -> Iterator[Lifecycle]:
    from tests.batch.lifecycle_parts import lifecycle_of

    made = lifecycle_of(database_url, tmp_path)
    yield made
    made.close()
