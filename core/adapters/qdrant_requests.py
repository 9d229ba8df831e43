"""The requests of the Qdrant adapter, in the words of its client library: the one file that knows the library."""

from __future__ import annotations

import math
import ssl
import uuid
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

import grpc  # type: ignore[import-untyped]
from qdrant_client import QdrantClient, models
from qdrant_client.common.client_exceptions import QdrantException, ResourceExhaustedResponse
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

from core.adapters.qdrant_aliases import Action, Assign, Rename
from core.adapters.qdrant_failures import of_bad_value, of_broken_call, of_code, of_status
from core.errors import BadAnswer, Misconfigured, Overloaded, Refused, Unavailable
from core.model.point import PAYLOAD_FIELDS, Payload, Point, label_value
from core.model.query import Selection

VECTOR = "text"
LARGE = 100_000  # points, from which one segment is too few
NEVER_KB = 1_000_000_000  # an indexing threshold no collection reaches
Client = QdrantClient
Operation = models.UpdateOperation


@dataclass(frozen=True, slots=True, kw_only=True)
class QdrantOptions:
    """How to reach a server, and how new collections are made.

    `timeout` bounds each request, rounded up to whole seconds: over gRPC as a whole, over REST each step of
    it (connect, send, wait for the answer). A client certificate needs its key. The defaults for
    `segments` and `wal_mb` keep small collections small. `on_disk_from` is the number of points from which
    vectors and graph are kept on disk (0: from the start, None: never).
    """

    url: str
    api_key: str | None = field(default=None, repr=False)
    ca_file: Path | None = None
    client_certificate: Path | None = None
    client_key: Path | None = None
    prefer_grpc: bool = False
    grpc_port: int = 6334
    timeout: timedelta = timedelta(seconds=10)
    payload_on_disk: bool = True
    on_disk_from: int | None = None
    quantization: Literal["none", "scalar", "binary"] = "none"
    hnsw_m: int | None = None
    hnsw_ef_construct: int | None = None
    indexing_threshold_kb: int = 10_000
    segments: int = 1
    wal_mb: int = 1
    shards: int | None = None
    replicas: int | None = None
    batch_count: int = 500
    batch_bytes: int = 16 * 2**20


def connect(options: QdrantOptions) -> QdrantClient:
    """A client for a server; it connects when first used. Raises Misconfigured for unusable files, keys, addresses."""
    secure: dict[str, Any] = {}
    key = options.api_key
    if key is not None and not (key.isascii() and key.isprintable() and key.strip() == key and key):
        raise Misconfigured("the vector server's API key holds characters no key holds")
    if not options.url.startswith(("http://", "https://")):
        raise Misconfigured("the vector server's address begins with http:// or https://")
    try:
        if options.url.startswith("https://"):
            context = ssl.create_default_context(cafile=options.ca_file)
            if options.client_certificate is not None:
                context.load_cert_chain(options.client_certificate, options.client_key)
            files = {
                "root_certificates": options.ca_file,
                "certificate_chain": options.client_certificate,
                "private_key": options.client_key,
            }
            read = {name: path.read_bytes() for name, path in files.items() if path is not None}
            secure = {"verify": context, "grpc_options": read}
        return QdrantClient(
            url=options.url,
            grpc_port=options.grpc_port,
            prefer_grpc=options.prefer_grpc,
            timeout=math.ceil(options.timeout.total_seconds()),
            # As a header: the argument for it makes the library print a warning on every plain connection.
            headers=None if key is None else {"api-key": key},
            check_compatibility=False,
            **secure,
        )
    except (OSError, ValueError) as error:
        raise Misconfigured("the vector server's address or certificate files cannot be used") from error


@contextmanager
def translated(name: str) -> Iterator[None]:
    """Around calls of the library: what they raise leaves as an error of the engine.

    The cause is left behind where it may quote what was sent.
    """
    try:
        yield
    except UnexpectedResponse as error:
        raise of_status(error.status_code or 0, error.content, name) from None
    except ResourceExhaustedResponse as error:
        raise Overloaded("the vector server asks for less", retry_after=error.retry_after_s) from None
    except QdrantException:
        raise Overloaded("the vector server asks for less") from None
    except ResponseHandlingException as error:
        raise of_broken_call(error.source, name) from None
    except grpc.RpcError as error:
        raise of_code(error.code().name, error.details() or "", name) from None
    except (ValueError, TypeError, OverflowError) as error:
        raise of_bad_value(error, name) from None
    except AssertionError:  # the library's own, of an answer without a result
        raise BadAnswer(f"the vector server's answer on {name} is empty") from None
    except RuntimeError as error:
        raise Unavailable("the connection to the vector server is closed") from error


def creation(options: QdrantOptions, dimensions: int) -> dict[str, Any]:
    """What a new collection is made with, as arguments of the library's `create_collection`."""
    return {
        "vectors_config": {VECTOR: _vector_params(options, dimensions)},
        "shard_number": options.shards,
        "replication_factor": options.replicas,
        "on_disk_payload": options.payload_on_disk,
        "optimizers_config": models.OptimizersConfigDiff(
            default_segment_number=options.segments, indexing_threshold=options.indexing_threshold_kb
        ),
        "wal_config": models.WalConfigDiff(wal_capacity_mb=options.wal_mb),
    }


def completed(results: Sequence[models.UpdateResult]) -> bool:
    """Whether every operation of a batch is done, so that the next call sees it."""
    return all(result.status is models.UpdateStatus.COMPLETED for result in results)


def unindexed() -> dict[str, Any]:
    """No HNSW graph for now, as arguments of the library's `update_collection`."""
    return {"optimizers_config": models.OptimizersConfigDiff(indexing_threshold=NEVER_KB)}


def fitting(options: QdrantOptions, points: int) -> dict[str, Any]:
    """What fits a collection of so many points, as arguments of the library's `update_collection`.

    A large one gets as many segments as the server has cores (0), so that they are built and searched side by
    side; a small one stays with what it was made with.
    """
    segments = 0 if points >= LARGE else options.segments
    fit: dict[str, Any] = {
        "optimizers_config": models.OptimizersConfigDiff(
            indexing_threshold=options.indexing_threshold_kb, default_segment_number=segments
        )
    }
    if options.on_disk_from is not None and points >= options.on_disk_from:
        on_disk = models.VectorParamsDiff(on_disk=True, hnsw_config=models.HnswConfigDiff(on_disk=True))
        fit["vectors_config"] = {VECTOR: on_disk}
    return fit


def _vector_params(options: QdrantOptions, dimensions: int) -> models.VectorParams:
    kept: dict[str, models.QuantizationConfig | None] = {
        "none": None,
        "scalar": models.ScalarQuantization(
            scalar=models.ScalarQuantizationConfig(type=models.ScalarType.INT8, quantile=0.99, always_ram=True)
        ),
        "binary": models.BinaryQuantization(binary=models.BinaryQuantizationConfig(always_ram=True)),
    }
    return models.VectorParams(
        size=dimensions,
        distance=models.Distance.COSINE,
        on_disk=options.on_disk_from == 0,
        hnsw_config=models.HnswConfigDiff(
            m=options.hnsw_m, ef_construct=options.hnsw_ef_construct, on_disk=options.on_disk_from == 0
        ),
        quantization_config=kept[options.quantization],
    )


def search_params(options: QdrantOptions) -> models.SearchParams | None:
    """How a search treats quantised vectors; None: there are none."""
    if options.quantization == "none":
        return None
    # Scores of small codes are rough: more are taken than asked for, and scored again by the whole vectors.
    return models.SearchParams(quantization=models.QuantizationSearchParams(rescore=True, oversampling=2.0))


def indexes() -> dict[str, Any]:
    """An index for every field that is filtered by.

    The version of the guards too: strict mode has a switch of its own that refuses writes by fields without one.
    """
    kinds = {
        "keyword": models.PayloadSchemaType.KEYWORD,
        "float": models.PayloadSchemaType.FLOAT,
        "datetime": models.PayloadSchemaType.DATETIME,
    }
    tenant = models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, is_tenant=True)
    own = {"version": models.PayloadSchemaType.INTEGER, "tenant": tenant}
    return {name: kinds[kind] for name, kind in PAYLOAD_FIELDS.items()} | own


def upserts(points: Sequence[Point], rows: Sequence[list[float]]) -> list[models.UpdateOperation]:
    """One operation a version: its condition is asked of the stored point, and what is not stored goes in."""
    by_version: dict[int, list[models.PointStruct]] = defaultdict(list)
    for point, vector in zip(points, rows, strict=True):
        payload = point.payload
        made = models.PointStruct(id=str(payload.embedding_id), vector={VECTOR: vector}, payload=payload.fields)
        by_version[payload.stamp.version].append(made)
    return [
        models.UpsertOperation(
            upsert=models.PointsList(points=same, update_filter=models.Filter(must=[_not_above(version)]))
        )
        for version, same in by_version.items()
    ]


def overwrite(payload: Payload) -> models.UpdateOperation:
    """Replace a payload whole where the text is the same and the stored version older."""
    same_and_older = models.Filter(
        must=[
            models.HasIdCondition(has_id=[str(payload.embedding_id)]),
            _equals("text_hash", payload.stamp.text_hash),
            _not_above(payload.stamp.version - 1),
        ]
    )
    return models.OverwritePayloadOperation(
        overwrite_payload=models.SetPayload(payload=payload.fields, filter=same_and_older)
    )


def deletions(versions: Sequence[tuple[uuid.UUID, int]]) -> list[models.UpdateOperation]:
    """One operation a version: remove those of the ids whose stored version is not newer."""
    by_version: dict[int, list[Any]] = defaultdict(list)
    for point_id, version in versions:
        by_version[version].append(str(point_id))
    return [
        models.DeleteOperation(
            delete=models.FilterSelector(
                filter=models.Filter(must=[models.HasIdCondition(has_id=ids), _not_above(version)])
            )
        )
        for version, ids in by_version.items()
    ]


def condition(selection: Selection) -> models.Filter:
    """The whole condition of a search. Raises Refused for a bound that is no number."""
    filters = selection.filters
    must: list[Any] = [_equals("tenant", selection.tenant)]
    must += [_equals(name, value) for name, value in filters.equalities.items()]
    must += [_equals("tags", tag) for tag in filters.tags_all]
    must += [_equals("labels", label_value(*pair)) for pair in filters.labels.items()]
    if filters.tags_any:
        must.append(models.FieldCondition(key="tags", match=models.MatchAny(any=list(filters.tags_any))))
    if filters.min_importance is not None:
        if not math.isfinite(filters.min_importance):
            # The library would send it as null, which asks for nothing.
            raise Refused("the least importance is not a number", where="min_importance")
        must.append(models.FieldCondition(key="importance", range=models.Range(gte=filters.min_importance)))
    if filters.created_from is not None or filters.created_to is not None:
        span = models.DatetimeRange(gte=_utc(filters.created_from), lt=_utc(filters.created_to))
        must.append(models.FieldCondition(key="created_at", range=span))
    gone = models.FieldCondition(key="expires_at", range=models.DatetimeRange(lte=_utc(selection.alive_at)))
    return models.Filter(must=must, must_not=[gone])


def carrying(tenant: str, hashes: Sequence[str]) -> models.Filter:
    """One tenant's points with any of these text hashes."""
    any_of = models.FieldCondition(key="text_hash", match=models.MatchAny(any=list(hashes)))
    return models.Filter(must=[_equals("tenant", tenant), any_of])


def _equals(name: str, value: str) -> models.FieldCondition:
    return models.FieldCondition(key=name, match=models.MatchValue(value=value))


def _not_above(version: int) -> models.FieldCondition:
    # Compared as 64-bit floats, exact below 2**53, where every version is.
    return models.FieldCondition(key="version", range=models.Range(lte=float(version)))


def _utc(moment: datetime | None) -> datetime | None:
    return None if moment is None else moment.astimezone(UTC)


def alias_operation(action: Action) -> Any:
    """An action on aliases as the library sends it."""
    if isinstance(action, Rename):
        renamed = models.RenameAlias(old_alias_name=action.old, new_alias_name=action.new)
        return models.RenameAliasOperation(rename_alias=renamed)
    if isinstance(action, Assign):
        made = models.CreateAlias(collection_name=action.collection, alias_name=action.alias)
        return models.CreateAliasOperation(create_alias=made)
    return models.DeleteAliasOperation(delete_alias=models.DeleteAlias(alias_name=action.alias))
