"""The engine: what can be asked of it, over the stores it was given."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from core.batch.archive import ArchiveWork
from core.batch.embed import EmbedWork
from core.batch.erase import EraseWork
from core.batch.reap import ReapWork, Spans
from core.batch.rotate import RotateWork
from core.index.budget import Budget
from core.index.erasing import IndexPlace
from core.index.indexer import Indexer
from core.model.erasure import Place as ErasePlace
from core.model.memory import DEFAULT_SCOPE, Draft, Memory
from core.model.outbox import Backlog, SetAside
from core.model.policy import POLICY_FIELDS, Policies, Policy, Rule
from core.model.query import Answer, Filters
from core.model.space import EmbeddingSpace
from core.model.use import DayOfUse
from core.ports import BlobStore, BulkLoads, Cache, Embedder, KeyProvider, Locks, VectorIndex
from core.read.access import AccessLog
from core.read.forecast import Forecast, forecast
from core.read.reader import Reader
from core.read.rehydrate import Rehydrate
from core.record import lifecycle
from core.record.contents import Contents
from core.record.database import Database
from core.record.erasing import CachePlace, ObjectsPlace
from core.record.memories import Place, Position
from core.record.outbox import Outbox
from core.record.uses import tokens_today, uses
from core.record.vault import Chance, Vault
from core.settings import Settings
from core.write.asked import admit_filters, admit_place, admit_query
from core.write.chunks import ChunkLimits
from core.write.gate import admit_id, admit_tenant
from core.write.ingest import Ingest, Ingested
from core.write.restore import Restored, Restorer
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
    blobs: BlobStore
    locks: Locks
    keys: KeyProvider | None = None
    receipt_key: bytes | None = None
    more_places: Sequence[ErasePlace] = ()
    loads: BulkLoads | None = None


class Engine:
    """Memories of agents: write, find, and bring the index up to date. Thread-safe; one a process is enough.

    Every method that takes a tenant sees and changes that tenant's data only.
    """

    def __init__(self, settings: Settings, stores: Stores, new_id: Callable[[], str]) -> None:
        self.settings = settings
        self._outbox = Outbox(stores.database, settings.lease)
        self._vault = Vault(stores.database, stores.keys, Chance(lambda: uuid.uuid4().hex, os.urandom, time.monotonic))
        self._contents = Contents(self._vault, stores.blobs, stores.cache)
        self._writer = Writer(stores.database, stores.models.default.space, new_id, self._contents)
        self._restorer = Restorer(stores.database, self._contents)
        self._ingest = Ingest(stores.database, self._writer, ChunkLimits())
        self._access = AccessLog(stores.database, time.monotonic)
        rehydrate = Rehydrate(self._contents, self._access)
        self._reader = Reader(stores.database, stores.index, stores.cache, stores.models.of, time.monotonic, rehydrate)
        self._indexer = Indexer(stores.database, self._outbox, stores.index, stores.models.of, vault=self._vault)
        self._policies = policies_of(settings)
        self._stores = stores
        self._loads = stores.loads
        self._database = stores.database
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

    def search(self, tenant: str, text: str, limit: int = 5, filters: Filters | None = None) -> Answer:
        """The memories nearest to a text, best first. Raises Refused for a blank text. See `Reader.search`."""
        return self._reader.search(admit_tenant(tenant), admit_query(text), limit, admit_filters(filters or Filters()))

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

    def restore(self, tenant: str, memory_ids: Sequence[str]) -> Sequence[Restored]:
        """Make archived memories warm again. See `Restorer.restore`."""
        return self._restorer.restore(tenant, memory_ids)

    def restore_all(
        self, tenant: str, session: str | None = None, kind: str | None = None
    ) -> Iterator[Sequence[Restored]]:
        """Make all archived memories of a tenant, or of its session or type, warm again, piece by piece."""
        return self._restorer.restore_all(tenant, {"session": session, "type": kind})

    def keep(self, tenant: str, memory_ids: Sequence[str], *, keep: bool = True) -> Sequence[str]:
        """Mark memories so that nothing moves or reaps them, or no longer; the ids of those that are there."""
        ids = [admit_id(one) for one in memory_ids]
        with self._database.tenant(admit_tenant(tenant)) as session:
            return lifecycle.keep(session, tenant, ids, keep=keep)

    def tenants(self, chosen: Sequence[str] | None = None) -> Sequence[str]:
        """Every tenant there is, or those of the chosen ones that are."""
        return lifecycle.tenants(self._database, None if chosen is None else [admit_tenant(one) for one in chosen])

    def policy(self, tenant: str) -> dict[str | None, Policy]:
        """The policies of a tenant by type; under None the one for all other types."""
        return self._policies.all_of(admit_tenant(tenant))

    def forecast(self, tenant: str) -> Forecast:
        """What a run of archive and reap would do to a tenant now; nothing is changed."""
        return forecast(self._database, admit_tenant(tenant), self._policies)

    def archive_work(self) -> ArchiveWork:
        """What the archive chore works with."""
        return ArchiveWork(
            database=self._database,
            contents=self._contents,
            blobs=self._stores.blobs,
            locks=self._stores.locks,
            policies=self._policies,
            new_id=uuid.uuid4,
            batch=self.settings.archive_batch,
        )

    def reap_work(self) -> ReapWork:
        """What the reap chore works with."""
        return ReapWork(
            database=self._database,
            index=self._stores.index,
            blobs=self._stores.blobs,
            cache=self._stores.cache,
            locks=self._stores.locks,
            policies=self._policies,
            spans=Spans(
                purge_after=self.settings.purge_after,
                tombstones=self.settings.tombstones_kept,
                versions=self.settings.versions_kept,
                events=self.settings.events_kept,
                objects=self.settings.objects_grace,
            ),
            new_id=uuid.uuid4,
            now=lambda: datetime.now(UTC),
            batch=self.settings.reap_batch,
        )

    def erase_work(self) -> EraseWork:
        """What the erase chore works with."""
        stores = self._stores
        return EraseWork(
            database=self._database,
            vault=self._vault,
            places=(
                IndexPlace(self._database, stores.index),
                ObjectsPlace(self._database, stores.blobs),
                CachePlace(stores.cache),
                *stores.more_places,
            ),
            locks=stores.locks,
            new_id=uuid.uuid4,
            key=stores.receipt_key,
            tombstones=self.settings.tombstones_kept,
            backups=self.settings.backups_kept,
        )

    def rotate_work(self) -> RotateWork:
        """What the rotate chore works with."""
        return RotateWork(database=self._database, vault=self._vault, locks=self._stores.locks, new_id=uuid.uuid4)

    def delete_older(self, tenant: str, age: timedelta, *, session: str | None = None, kind: str | None = None) -> int:
        """Delete what was created longer ago than `age`. See `Writer.delete_older`."""
        return self._writer.delete_older(tenant, age, session=session, kind=kind)

    def close(self) -> None:
        """Write what is left to note. The stores are closed by whoever opened them."""
        self._access.close()

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


def policies_of(settings: Settings) -> Policies:
    """The policies the settings name; of a rule only what it sets counts."""
    return Policies(
        [
            Rule(
                tenant=rule.tenant,
                type=rule.type,
                changes=tuple((name, getattr(rule, name)) for name in POLICY_FIELDS if name in rule.model_fields_set),
            )
            for rule in settings.policies
        ]
    )
