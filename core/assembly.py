"""Settings to an open engine: the only place where adapters are chosen. Opened in order, closed in reverse."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ulid import ULID

from core.adapters.embedded_postgres import start_postgres, stop_postgres
from core.adapters.embedded_valkey import start_valkey, stop_valkey
from core.adapters.local_throttle import LocalThrottle
from core.adapters.no_cache import NoCache
from core.adapters.qdrant_edge import EdgeIndex
from core.adapters.redis_cache import RedisCache
from core.adapters.redis_locks import RedisLocks
from core.adapters.redis_server import RedisServer
from core.adapters.redis_throttle import RedisThrottle
from core.adapters.wordllama_embedder import MODEL, WHEEL, WIDTHS, WordLlamaEmbedder
from core.batch.embed import EmbedWork
from core.errors import EngineError, Misconfigured
from core.index.budget import Budget
from core.index.indexer import Indexer
from core.index.throttled import ThrottledEmbedder, Throttling
from core.model.memory import DEFAULT_SCOPE, Draft, Memory
from core.model.outbox import Backlog, SetAside
from core.model.query import Answer, Filters
from core.model.quota import Quota, provider_key
from core.model.space import EmbeddingSpace
from core.model.use import DayOfUse
from core.ports import BlobStore, BulkLoads, Cache, Embedder, Locks, Throttle, VectorIndex
from core.read.reader import Reader
from core.record.database import Database, Limits
from core.record.memories import Place, Position
from core.record.migrate import migrate
from core.record.outbox import Outbox
from core.record.uses import tokens_today, uses
from core.settings import Settings
from core.write.asked import admit_filters, admit_place, admit_query
from core.write.chunks import ChunkLimits
from core.write.gate import admit_id, admit_tenant
from core.write.ingest import Ingest, Ingested
from core.write.writer import Writer, Written

logger = logging.getLogger(__name__)

CACHE_PREFIX = "memory:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stores:
    """The open stores an engine works on."""

    database: Database
    index: VectorIndex
    cache: Cache
    embedder: Embedder
    loads: BulkLoads | None = None


class Engine:
    """Memories of agents: write, find, and bring the index up to date. Thread-safe; one a process is enough.

    Every method that takes a tenant sees and changes that tenant's data only.
    """

    def __init__(self, settings: Settings, stores: Stores, new_id: Callable[[], str]) -> None:
        self.settings = settings
        self._outbox = Outbox(stores.database, settings.lease)
        self._writer = Writer(stores.database, stores.embedder.space, new_id)
        self._ingest = Ingest(stores.database, self._writer, ChunkLimits())
        embedder_of = _by_space(stores.embedder)
        self._reader = Reader(stores.database, stores.index, stores.cache, embedder_of, time.monotonic)
        self._indexer = Indexer(stores.database, self._outbox, stores.index, embedder_of)
        self._loads = stores.loads
        self._database = stores.database
        today = partial(tokens_today, stores.database, stores.embedder.space)
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


@contextmanager
def open_engine(settings: Settings) -> Iterator[Engine]:
    """An engine on the stores the settings name; the embedded ones are started first where none is named.

    Embedded servers go on running when the engine closes, for the next command (`stop_embedded`
    ends them). Raises Unavailable or Misconfigured when a needed store cannot be opened: that is
    PostgreSQL alone; the cache and the index are reached when they are first used.
    """
    with ExitStack() as opened:
        database = Database(prepare_record(settings), limits_of(settings))
        database.open()
        opened.callback(database.close)
        server = opened.enter_context(_opened_redis(settings))
        cache = NoCache() if server is None else RedisCache(server, prefix=CACHE_PREFIX)
        index = opened.enter_context(closing(open_index(settings)))
        embedder = opened.enter_context(closing(throttled(open_embedder(settings), settings, server)))
        loads = index if isinstance(index, BulkLoads) else None
        stores = Stores(database=database, index=index, cache=cache, embedder=embedder, loads=loads)
        yield Engine(settings, stores, lambda: f"mem_{ULID()}")


def open_index(settings: Settings) -> VectorIndex:
    """The vector index the settings name; nothing is connected yet. Raises Misconfigured."""
    if settings.qdrant_url is None:
        return EdgeIndex(settings.home / "vectors", wait=settings.index_wait)
    # Importing its client takes most of a second, which an embedded engine does not need to wait.
    from core.adapters.qdrant_requests import QdrantOptions
    from core.adapters.qdrant_server import QdrantIndex

    key = settings.qdrant_api_key
    return QdrantIndex(
        QdrantOptions(
            url=settings.qdrant_url,
            api_key=None if key is None else key.get_secret_value(),
            ca_file=settings.qdrant_ca_file,
            client_certificate=settings.qdrant_certificate_file,
            client_key=settings.qdrant_certificate_key_file,
            prefer_grpc=settings.qdrant_grpc_port > 0,
            grpc_port=settings.qdrant_grpc_port or 6334,
            timeout=settings.qdrant_timeout,
            on_disk_from=settings.qdrant_on_disk_from,
            quantization=settings.qdrant_quantization,
        )
    )


def open_embedder(settings: Settings) -> Embedder:
    """The model the settings name; nothing is loaded or asked yet. Raises Misconfigured."""
    if settings.embedding_provider == WHEEL:
        return WordLlamaEmbedder(settings.embedding_dimensions or WIDTHS[-1])
    from core.adapters.embedding_presets import options_for
    from core.adapters.openai_embedder import OpenAIEmbedder

    if settings.embedding_model is None:
        raise Misconfigured(f"embedding_model: say which model of {settings.embedding_provider}")
    key = settings.embedding_api_key
    options = options_for(
        settings.embedding_provider,
        settings.embedding_model,
        dimensions=settings.embedding_dimensions,
        base_url=None if settings.embedding_url is None else settings.embedding_url.get_secret_value(),
        api_key=None if key is None else key.get_secret_value(),
        deployment=settings.embedding_deployment,
        document_timeout=settings.embedding_timeout,
        query_timeout=settings.embedding_query_timeout,
    )
    return OpenAIEmbedder(options)


def price_of(provider: str, model: str) -> float | None:
    """List price of a million tokens, in US dollars; None: not known."""
    from core.adapters.embedding_presets import facts_of, providers

    if (provider, model) == (WHEEL, MODEL):
        return 0.0
    facts = facts_of(provider, model) if provider in providers() else None
    return None if facts is None else facts.price


def open_blobs(settings: Settings) -> BlobStore:
    """The object store the settings name; nothing is connected yet. Raises Misconfigured."""
    # Its libraries take half a second to import, and only batch jobs need them.
    from core.adapters.fsspec_blobs import open_folder, open_s3
    from core.adapters.s3_options import S3Options

    place = settings.objects_url or str(settings.home / "objects")
    if not place.startswith("s3://"):
        return open_folder(Path(place))
    bucket, _, prefix = place.removeprefix("s3://").partition("/")
    secret = settings.s3_secret
    return open_s3(
        S3Options(
            bucket=bucket,
            prefix=prefix,
            endpoint=settings.s3_endpoint,
            region=settings.s3_region,
            key_id=settings.s3_key_id,
            secret=None if secret is None else secret.get_secret_value(),
            ca_file=settings.s3_ca_file,
            kms_key=settings.s3_kms_key_id,
            client=settings.s3_client,
        )
    )


def throttled(embedder: Embedder, settings: Settings, server: RedisServer | None) -> Embedder:
    """The embedder, kept to its provider's limits with all workers on the same key; as it is where it has none."""
    if settings.embedding_provider == WHEEL:
        return embedder
    quota = Quota(
        requests_per_minute=settings.embedding_requests_a_minute,
        tokens_per_minute=settings.embedding_tokens_a_minute,
        at_once=settings.embedding_at_once,
        kept_for_queries=settings.embedding_kept_for_queries,
    )
    share, key = settings.embedding_share, settings.embedding_api_key
    alone = LocalThrottle(share=share)
    throttle: Throttle = alone if server is None else RedisThrottle(server, prefix=f"{CACHE_PREFIX}limit:", share=share)
    named = provider_key(embedder.space.endpoint, "" if key is None else key.get_secret_value())
    return ThrottledEmbedder(embedder, Throttling(throttle=throttle, key=named, quota=quota))


@contextmanager
def _opened_redis(settings: Settings) -> Iterator[RedisServer | None]:
    """The cache's server, not connected yet; None, with a warning, where the embedded one cannot start."""
    server = redis_server(settings) if settings.cache else None
    with nullcontext() if server is None else closing(server):
        yield server


def locks_of(server: RedisServer) -> Locks:
    """The locks on the cache's server."""
    return RedisLocks(server, prefix=f"{CACHE_PREFIX}lock:")


def redis_server(settings: Settings) -> RedisServer | None:
    """The Redis or Valkey the settings name, not connected yet; None where the embedded one cannot start.

    Raises Misconfigured for a URL that cannot be used.
    """
    if settings.redis_url is not None:
        return RedisServer(settings.redis_url.get_secret_value(), timeout=settings.cache_timeout)
    try:
        return RedisServer(start_valkey(settings.home), timeout=settings.cache_timeout)
    except EngineError as problem:
        logger.warning("working without the embedded cache: %s", problem.message)
        return None


def prepare_record(settings: Settings) -> str:
    """URL of the record, its server started if it is the embedded one, its schema up to date."""
    url = record_url(settings)
    migrate(url)
    return url


def record_url(settings: Settings) -> str:
    """URL of the record; its server is started if it is the embedded one."""
    return start_postgres(settings.home) if settings.postgres_url is None else settings.postgres_url.get_secret_value()


def stop_embedded(settings: Settings) -> list[str]:
    """End the embedded servers of this home; the names of those that were running."""
    stops = {"valkey": stop_valkey, "postgresql": stop_postgres}
    return [name for name, stop in stops.items() if stop(settings.home)]


def limits_of(settings: Settings) -> Limits:
    """Time limits and number of connections for PostgreSQL."""
    return Limits(
        statement=settings.statement_timeout,
        lock=settings.lock_timeout,
        connect=settings.connect_timeout,
        connections=settings.connections,
    )


def _by_space(embedder: Embedder) -> Callable[[EmbeddingSpace], Embedder]:
    """The embedder of a space. A query or record never goes to a model of another space."""

    def embedder_of(space: EmbeddingSpace) -> Embedder:
        if space.fingerprint != embedder.space.fingerprint:
            raise Misconfigured(
                f"the generation was built with {space.provider} {space.model} at {space.dimensions} dimensions "
                f"({space.fingerprint[:8]}), the settings say {embedder.space.provider} {embedder.space.model} at "
                f"{embedder.space.dimensions} ({embedder.space.fingerprint[:8]}): choose the former again, or reindex"
            )
        return embedder

    return embedder_of
