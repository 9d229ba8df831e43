"""Settings to an open engine: the only place where adapters are chosen. Opened in order, closed in reverse."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, nullcontext
from functools import partial

from ulid import ULID

from core.adapters.no_cache import NoCache
from core.adapters.no_locks import NoLocks
from core.adapters.redis_cache import RedisCache
from core.adapters.redis_server import RedisServer
from core.adapters.redis_streams import RedisStreams
from core.assembly.lazy_blobs import LazyBlobs
from core.assembly.models import SpaceModels
from core.assembly.stores import (
    CACHE_PREFIX,
    limits_of,
    locks_of,
    open_blobs,
    open_data_docs,
    open_index,
    open_keys,
    prepare_record,
    receipt_key,
    redis_server,
    scratch_of,
)
from core.engine import Engine, Stores
from core.ports import BulkLoads
from core.record.database import Database
from core.settings import Settings

__all__ = ["Engine", "open_engine"]


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
        models = opened.enter_context(closing(SpaceModels(settings, server)))
        loads = index if isinstance(index, BulkLoads) else None
        blobs = opened.enter_context(closing(LazyBlobs(partial(open_blobs, settings))))
        keep = settings.event_stream_kept
        events = None if server is None else RedisStreams(server, prefix=CACHE_PREFIX, keep=keep)
        stores = Stores(
            database=database,
            index=index,
            cache=cache,
            models=models,
            blobs=blobs,
            locks=NoLocks() if server is None else locks_of(server),
            keys=open_keys(settings),
            receipt_key=receipt_key(settings),
            loads=loads,
            scratch=scratch_of(server),
            events=events,
            checker=open_data_docs(settings),
        )
        yield opened.enter_context(closing(Engine(settings, stores, lambda: f"mem_{ULID()}")))


@contextmanager
def _opened_redis(settings: Settings) -> Iterator[RedisServer | None]:
    """The cache's server, not connected yet; None, with a warning, where the embedded one cannot start."""
    server = redis_server(settings) if settings.cache else None
    with nullcontext() if server is None else closing(server):
        yield server
