"""The engine: what can be asked of it, over the stores it was given."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from core.batch.embed import EmbedWork
from core.index.budget import Budget
from core.index.indexer import Indexer
from core.model.memory import DEFAULT_SCOPE, Draft, Memory
from core.model.outbox import Backlog, SetAside
from core.model.query import Answer, Filters
from core.model.ranking import Ranking
from core.model.space import EmbeddingSpace
from core.model.use import DayOfUse
from core.ports import BulkLoads, Cache, Embedder, VectorIndex
from core.read.context import Context, Order, context_of
from core.read.health import Health, health_of
from core.read.reader import Reader
from core.record.database import Database
from core.record.memories import Place, Position
from core.record.outbox import Outbox
from core.record.refill import refill
from core.record.uses import tokens_today, uses
from core.settings import Settings
from core.write.asked import admit_filters, admit_place, admit_query
from core.write.chunks import ChunkLimits
from core.write.gate import admit_id, admit_tenant
from core.write.ingest import Ingest, Ingested
from core.write.writer import Writer, Written


class Models(Protocol):
    """The embedding models that can be asked. `of` and `named` raise Misconfigured for one that cannot."""

    @property
    def default(self) -> Embedder:
        """The model new tenants are embedded with."""

    def of(self, space: EmbeddingSpace) -> Embedder:
        """The model of a space. A query or record never goes to a model of another space."""

    def named(self, name: str, dimensions: int | None = None) -> Embedder:
        """A model by its name in the settings or at the default's provider, at another width if one is given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stores:
    """The open stores an engine works on."""

    database: Database
    index: VectorIndex
    cache: Cache
    models: Models
    loads: BulkLoads | None = None


class Engine:
    """Memories of agents: write, find, and bring the index up to date. Thread-safe; one a process is enough.

    Every method that takes a tenant sees and changes that tenant's data only.
    """

    def __init__(self, settings: Settings, stores: Stores, new_id: Callable[[], str]) -> None:
        self.settings = settings
        self._outbox = Outbox(stores.database, settings.lease)
        self._writer = Writer(stores.database, stores.models.default.space, new_id)
        self._ingest = Ingest(stores.database, self._writer, ChunkLimits())
        self._reader = Reader(
            stores.database,
            stores.index,
            stores.cache,
            stores.models.of,
            time.monotonic,
            ranking=settings.ranking,
            deadline=settings.search_deadline,
            threads=settings.search_threads,
            keep_answers=settings.search_answers_kept,
        )
        self._indexer = Indexer(stores.database, self._outbox, stores.index, stores.models.of)
        self._loads = stores.loads
        self._database = stores.database
        self._index = stores.index
        today = partial(tokens_today, stores.database, stores.models.default.space)
        self._budget = Budget(settings.embed_tokens_a_day, settings.embed_tokens_a_run, today)

    def write(self, tenant: str, draft: Draft) -> Written:
        """Keep one memory; committed when it returns. See `Writer.write`."""
        return self._writer.write(tenant, draft)

    def write_many(self, tenant: str, drafts: Iterable[Draft]) -> Iterator[Written]:
        """Keep many memories, one result an item. See `Writer.write_many`."""
        return self._writer.write_many(tenant, drafts)

    def update(self, tenant: str, memory_id: str, changes: Mapping[str, Any], expected_version: int) -> Written:
        """Change fields of a memory that is still at the expected version. See `Writer.update`."""
        return self._writer.update(tenant, memory_id, changes, expected_version)

    def delete(self, tenant: str, memory_id: str) -> bool:
        """Delete a memory: gone for every reader when this returns. False: there was none."""
        return self._writer.delete(tenant, memory_id)

    def import_lines(self, tenant: str, path: Path) -> Iterator[Ingested]:
        """Import a JSON Lines file; yields the running total. See `Ingest.lines`."""
        return self._ingest.lines(tenant, path)

    def import_notes(self, tenant: str, root: Path, scope: str = DEFAULT_SCOPE) -> Iterator[Ingested]:
        """Import a folder of Markdown notes; yields the running total. See `Ingest.notes`."""
        return self._ingest.notes(tenant, root, scope)

    def get(self, tenant: str, memory_id: str) -> Memory:
        """One memory. Raises NotFound when it is deleted, expired or never was."""
        return self._reader.get(admit_tenant(tenant), admit_id(memory_id))

    def list(self, tenant: str, place: Place, limit: int = 50, after: Position | None = None) -> list[Memory]:
        """Memories of a scope, project, session or role, newest first, a page at a time."""
        return self._reader.page(admit_tenant(tenant), admit_place(place), limit, after)

    def count(self, tenant: str) -> int:
        """How many live memories a tenant has."""
        return self._reader.count(admit_tenant(tenant))

    def search(
        self,
        tenant: str,
        text: str,
        limit: int = 5,
        filters: Filters | None = None,
        ranking: Ranking | None = None,
        around: int = 0,
        min_score: float | None = None,
    ) -> Answer:
        """The memories that answer a text best, best first. Raises Refused for a blank text. See `Reader.search`.

        `ranking` takes the place of what the settings say, `around` asks for passages of so many memories on
        each side of a hit, `min_score` leaves out what scores less.
        """
        chosen = admit_filters(filters or Filters())
        return self._reader.search(
            admit_tenant(tenant), admit_query(text), limit, chosen, ranking=ranking, around=around, min_score=min_score
        )

    def context(
        self,
        tenant: str,
        text: str,
        budget: int = 2000,
        limit: int = 20,
        filters: Filters | None = None,
        around: int = 0,
        order: Order = "best",
    ) -> Context:
        """What answers a text, as a block for a prompt within a token budget. See `core.read.context`."""
        return context_of(self.search(tenant, text, limit, filters, around=around), budget, order)

    def backlog(self, tenants: Sequence[str] | None = None) -> Sequence[Backlog]:
        """Records, waiting and set-aside work of each tenant (all of them, or those named)."""
        return self._outbox.backlog(None if tenants is None else [admit_tenant(one) for one in tenants])

    def set_aside(self, tenant: str, limit: int = 100) -> Sequence[SetAside]:
        """Index work of a tenant that was taken out of the queue, with the reasons, oldest first."""
        return self._outbox.list_set_aside(admit_tenant(tenant), limit)

    def retry(self, tenant: str, memory_ids: Sequence[str] | None = None) -> Sequence[str]:
        """Bring set-aside index work of a tenant (all of it, or of some memories) back into the queue."""
        ids = None if memory_ids is None else [admit_id(one) for one in memory_ids]
        return self._outbox.retry(admit_tenant(tenant), ids)

    def drop_set_aside(self, tenant: str, memory_ids: Sequence[str]) -> Sequence[str]:
        """Give set-aside index work up: these memories stay in the record, unfound until they change."""
        return self._outbox.drop(admit_tenant(tenant), [admit_id(one) for one in memory_ids])

    def uses(self, days: int, tenants: Sequence[str] | None = None) -> Sequence[DayOfUse]:
        """What embedding took in the last `days` days, per tenant, day and model, newest first."""
        return uses(self._database, days, None if tenants is None else [admit_tenant(one) for one in tenants])

    def refill(self, tenant: str) -> Iterator[int]:
        """Bring rows of an earlier release up to this one, in pieces. See `core.record.refill`."""
        return refill(self._database, admit_tenant(tenant))

    def cache_rates(self) -> Mapping[str, tuple[int, int]]:
        """Look-ups and hits of each kind of cache, of all processes, as far as they have told."""
        return self._reader.rates.rates()

    def health(self) -> Health:
        """Whether the stores a search needs can be reached, and how fast. Never raises for one that cannot."""
        return health_of(self._database, self._index)

    def close(self) -> None:
        """End the engine's own threads. The stores are closed by whoever opened them."""
        self._reader.close()

    def embed_work(self) -> EmbedWork:
        """What the embed chore works with."""
        return EmbedWork(
            outbox=self._outbox,
            indexer=self._indexer,
            new_id=uuid.uuid4,
            batch=self.settings.embed_batch,
            workers=self.settings.embed_workers,
            retry_wait=self.settings.retry_wait,
            loads=self._loads,
            budget=self._budget,
        )
