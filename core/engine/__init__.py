"""The engine: what can be asked of it, over the stores it was given."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from core.batch.batch_lane import BatchWork, cancel
from core.batch.embed import EmbedWork
from core.batch.reindex import ReindexWork, behind_of, give_up_idle
from core.engine.graph import Graph
from core.engine.lifecycle import Lifecycle
from core.engine.safekeeping import Safekeeping
from core.engine.stores import Models, Stores
from core.engine.watch import Watch
from core.errors import EngineError, Refused
from core.index.budget import Budget
from core.index.estimate import Estimate, Estimator, TenantEstimate
from core.index.gate import Gate
from core.index.indexer import Indexer
from core.index.known import KnownVectors
from core.index.opening import Opening
from core.index.recent import RecentVectors
from core.index.removal import Remover
from core.index.siblings import SiblingVectors
from core.index.snapshots.known import SnapshotVectors
from core.index.swap import Swapper
from core.model.batch import BatchJob
from core.model.generation import GenerationState
from core.model.memory import DEFAULT_SCOPE, Draft, Memory
from core.model.outbox import Backlog, SetAside
from core.model.query import Answer, Filters
from core.model.ranking import Ranking
from core.model.reindex import GenerationStatus
from core.model.space import EmbeddingSpace
from core.model.use import DayOfUse
from core.read.access import AccessLog
from core.read.context import Context, Order, context_of
from core.read.health import Health, health_of
from core.read.reader import Reader
from core.read.rehydrate import Rehydrate
from core.record.backfill import Backfill
from core.record.batch_jobs import BatchJobs, BatchVectors
from core.record.building import Building, statuses
from core.record.contents import Contents
from core.record.generations import generations
from core.record.memories import Place, Position
from core.record.outbox import Outbox
from core.record.refill import refill
from core.record.removals import Removals
from core.record.swaps import Swaps
from core.record.uses import tokens_today, uses
from core.record.vault import Chance, Vault
from core.settings import Settings
from core.upkeep import Upkeep
from core.write.asked import admit_filters, admit_place, admit_query
from core.write.chunks import ChunkLimits
from core.write.gate import admit_id, admit_tenant
from core.write.ingest import Ingest, Ingested
from core.write.working import WorkingMemory
from core.write.writer import Writer, Written

__all__ = ["Engine", "Models", "Stores"]


class Engine:
    """Memories of agents: write, find, and bring the index up to date. Thread-safe; one a process is enough.

    Every method that takes a tenant sees and changes that tenant's data only.
    """

    def __init__(self, settings: Settings, stores: Stores, new_id: Callable[[], str]) -> None:
        self.settings = settings
        self._kept_vectors = SnapshotVectors(stores.database, stores.blobs, time.monotonic)
        self._known: tuple[KnownVectors, ...] = (SiblingVectors(stores.database, stores.index), self._kept_vectors)
        recent = RecentVectors(settings.embedding_recent_bytes, time.monotonic)
        self._outbox = Outbox(stores.database, settings.lease)
        vault = Vault(stores.database, stores.keys, Chance(lambda: uuid.uuid4().hex, os.urandom, time.monotonic))
        contents = Contents(vault, stores.blobs, stores.cache)
        self._opened: Opening = contents.whole
        self._access = AccessLog(stores.database, time.monotonic)
        self._writer = Writer(stores.database, stores.models.default.space, new_id, contents)
        self._ingest = Ingest(stores.database, self._writer, ChunkLimits())
        self._indexer = Indexer(
            stores.database,
            self._outbox,
            stores.index,
            stores.models.of,
            known=self._known,
            recent=recent,
            opened=contents.whole,
        )
        self._jobs = BatchJobs(stores.database, settings.lease)
        self._stores = stores
        kept, most = settings.working_kept, settings.working_entries
        self.working = WorkingMemory(stores.scratch, self._writer, new_id, lambda: datetime.now(UTC), kept, most)
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
            rehydrate=Rehydrate(contents, self._access),
            recent_vectors=recent,
            keep_queries=settings.search_queries_kept,
        )
        self.safekeeping = Safekeeping(settings, stores, self._kept_vectors)
        self.lifecycle = Lifecycle(settings, stores, contents, self._writer, self.safekeeping)
        self.graph = Graph(stores.database)
        self.watch = Watch(settings, stores, self._reader.rates)
        self._index = stores.index
        self._models = stores.models
        self._swapper = Swapper(stores.database, stores.index, Swaps(stores.database, settings.lease))
        self._remover = Remover(stores.database, stores.index, Removals(stores.database))
        self._database = stores.database
        self.upkeep = Upkeep(
            settings=settings,
            database=stores.database,
            index=stores.index,
            locks=stores.locks,
            swapper=self._swapper,
            remover=self._remover,
            blobs=stores.blobs,
            cache=stores.cache if settings.cache else None,
            events=stores.events,
        )
        today = partial(tokens_today, stores.database)
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

    def import_notes(
        self, tenant: str, root: Path, scope: str = DEFAULT_SCOPE, only: Collection[Path] | None = None
    ) -> Iterator[Ingested]:
        """Import a folder of Markdown notes, or some of it; yields the running total. See `Ingest.notes`."""
        return self._ingest.notes(tenant, root, scope, only)

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
        chosen, asked = admit_filters(filters or Filters()), (admit_tenant(tenant), admit_query(text))
        started = time.monotonic()
        try:
            answer = self._reader.search(*asked, limit, chosen, ranking=ranking, around=around, min_score=min_score)
        except EngineError as problem:
            if not isinstance(problem, Refused):
                self.watch.searches.failed()
            raise
        self.watch.searches.answered(time.monotonic() - started, degraded=answer.degraded is not None)
        return answer

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

    def claimable(self, limit: int = 100, tenants: Sequence[str] | None = None) -> Sequence[str]:
        """Tenants (of all, or those named) with index work that can be done now, in the order of their turns. Cheap."""
        return self._outbox.claimable(limit, None if tenants is None else [admit_tenant(one) for one in tenants])

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

    def generations(self, tenants: Sequence[str] | None = None, *, dropped: bool = False) -> Sequence[GenerationStatus]:
        """Every generation of the tenants (all, or those named), with what waits for it and what its gate said."""
        named = None if tenants is None else [admit_tenant(one) for one in tenants]
        return statuses(self._database, named, dropped=dropped)

    def space_of(self, model: str, dimensions: int | None = None) -> EmbeddingSpace:
        """The embedding space of a model by its name, at a width. Raises Misconfigured where the settings name none."""
        return self._models.named(model, dimensions).space

    def estimate(self, tenant: str, space: EmbeddingSpace) -> Estimate:
        """What it would take to bring a tenant into a space. See `core.index.estimate`."""
        return self._estimator().estimate(space, admit_tenant(tenant))

    def reindex_work(self) -> ReindexWork:
        """What the reindex chore works with."""
        gate = Gate(
            database=self._database,
            index=self._index,
            embedder_of=self._models.of,
            clock=time.perf_counter,
            bounds=self.settings.gate_bounds,
            queries=self._reader.recent.queries,
            opened=self._opened,
        )
        return ReindexWork(
            index=self._index,
            building=Building(self._database, self.settings.lease),
            backfill=Backfill(self._database),
            gate=gate,
            swapper=self._swapper,
            loads=self._stores.loads,
            ahead=max(2, self.settings.embed_tasks) * self.settings.embed_portion,
        )

    def rollback(self, tenant: str, *, force: bool = False) -> int:
        """Make the generation that served before the live one again; its number. See `Swapper.rollback`."""
        behind = behind_of(self.generations([tenant]))
        grace = self.settings.reindex_grace
        return self._swapper.rollback(admit_tenant(tenant), grace, uuid.uuid4(), behind, force=force)

    def abort_generation(self, tenant: str, number: int) -> bool:
        """Give up a generation that is being built. False: it is not. Raises Busy while it is being swapped in."""
        return self.reindex_work().building.abort(admit_tenant(tenant), number, "given up by hand")

    def drop_generation(self, tenant: str, number: int) -> None:
        """Drop a generation that retires or was given up, now. See `Remover.drop`."""
        self._remover.drop(admit_tenant(tenant), number)

    def sweep_generations(self) -> Mapping[str, str]:
        """Give up what nobody goes on with, and drop what is due; what could not be dropped, with the reason."""
        give_up_idle(self.reindex_work(), self.settings.reindex_abandoned)
        return self._remover.sweep()

    def batch_jobs(self, tenants: Sequence[str] | None = None, *, open_only: bool = False) -> Sequence[BatchJob]:
        """Batch jobs at providers, newest first (of all tenants, or those named; those that have not ended)."""
        names = None if tenants is None else [admit_tenant(one) for one in tenants]
        return self._jobs.listed(names, open_only=open_only)

    def cancel_batch(self, job: BatchJob) -> bool:
        """Cancel a batch job: its entries are free when this returns. False: it has ended. See `batch_lane.cancel`."""
        return cancel(self.batch_work(), job)

    def estimates(self, tenants: Sequence[str] | None = None) -> Sequence[TenantEstimate]:
        """What an embed run would take now, for each tenant's generations that have work. Changes nothing."""
        found = []
        for one in self.backlog(tenants):
            with self._database.tenant(one.tenant) as session:
                kept = [each for each in generations(session, one.tenant) if each.state is not GenerationState.DROPPED]
            for each in kept if one.waiting else []:
                needed = self._estimator().estimate(each, one.tenant, waiting_only=True)
                in_batch = one.in_batch if each is kept[0] else 0
                found.append(TenantEstimate(one.tenant, each.number, each.space, in_batch, needed))
        return found

    def _estimator(self) -> Estimator:
        known = (*self._known, BatchVectors(self._database))
        return Estimator(self._database, self._index, known, self._opened)

    def batch_work(self) -> BatchWork:
        """What the batch lane works with."""
        return BatchWork(
            database=self._database,
            outbox=self._outbox,
            jobs=self._jobs,
            indexer=self._indexer,
            batches_of=self._models.batches_of,
            new_id=uuid.uuid4,
            wait=self.settings.batch_wait,
            budget=self._budget,
        )

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
        self.watch.close()
        self._reader.close()
        self._access.close()
        self._kept_vectors.close()

    def embed_work(self) -> EmbedWork:
        """What the embed chore works with."""
        return EmbedWork(
            outbox=self._outbox,
            indexer=self._indexer,
            new_id=uuid.uuid4,
            batch=self.settings.embed_batch,
            workers=self.settings.embed_workers,
            retry_wait=self.settings.retry_wait,
            loads=self._stores.loads,
            budget=self._budget,
            cooling=self._models.cooling,
        )
