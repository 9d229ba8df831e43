"""Each store as the settings name it; what is not named runs embedded."""

from __future__ import annotations

import logging
from pathlib import Path

from core.adapters.data_docs import DataDocs
from core.adapters.embedded_postgres import start_postgres, stop_postgres
from core.adapters.embedded_valkey import start_valkey, stop_valkey
from core.adapters.qdrant_edge import EdgeIndex
from core.adapters.redis_locks import RedisLocks
from core.adapters.redis_scratch import RedisScratch
from core.adapters.redis_server import RedisServer
from core.errors import EngineError, Misconfigured
from core.ports import BlobStore, KeyProvider, Locks, VectorIndex
from core.record.database import Limits
from core.record.migrate import migrate
from core.settings import Settings
from core.write.working import Scratch

logger = logging.getLogger(__name__)

CACHE_PREFIX = "memory:"


def open_index(settings: Settings) -> VectorIndex:
    """The vector index the settings name; nothing is connected yet. Raises Misconfigured."""
    if settings.qdrant_url is None:
        return EdgeIndex(settings.home / "vectors", wait=settings.index_wait, keep_open=settings.index_open)
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


def open_data_docs(settings: Settings) -> DataDocs:
    """Where quality runs are judged and their pages kept; nothing is imported or written yet."""
    return DataDocs(settings.data_docs or settings.home / "quality")


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


def open_keys(settings: Settings) -> KeyProvider | None:
    """Who holds the master key; None: nobody. Raises Misconfigured."""
    from core.adapters.key_providers import keys_from_file, keys_from_text

    if settings.key_provider == "file":
        return keys_from_file(settings.key_file or settings.home / "master.key")
    return None if settings.master_key is None else keys_from_text(settings.master_key.get_secret_value())


def receipt_key(settings: Settings) -> bytes | None:
    """The operator's key for receipts, in PEM; None: receipts are not signed. Raises Misconfigured."""
    if settings.receipt_key_file is None:
        return None
    try:
        return settings.receipt_key_file.read_bytes()
    except OSError as error:
        raise Misconfigured(f"receipt_key_file cannot be read: {error.strerror}") from error


def locks_of(server: RedisServer) -> Locks:
    """The locks on the cache's server."""
    return RedisLocks(server, prefix=f"{CACHE_PREFIX}lock:")


def scratch_of(server: RedisServer | None) -> Scratch | None:
    """The working memories on the cache's server; None: there is no server."""
    return None if server is None else RedisScratch(server, prefix=f"{CACHE_PREFIX}work:")


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
