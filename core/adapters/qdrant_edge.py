"""The port `VectorIndex` on Qdrant Edge: Qdrant's engine in this process, one folder a collection.

Every call of the library holds Python's interpreter lock, and its HNSW build blocks for seconds: it is
never started here (plain search serves to about 100,000 points).
"""

from __future__ import annotations

import shutil
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import qdrant_edge as edge
from numpy.typing import NDArray

from core.adapters.alias_file import AliasFiles
from core.adapters.edge_hold import Hold
from core.adapters.edge_shards import OpenShards
from core.errors import Busy, Conflict, EngineError, Misconfigured, NotFound, Refused, Unavailable
from core.model.point import PAYLOAD_FIELDS, Hit, Payload, Point, Stamp, Vector, as_rfc3339, label_value, unit_rows
from core.model.query import Selection

_VECTOR = "text"
_WIDTH_FILE = "memory-dimensions"
_UNFINISHED = ".new"
_DOOMED = ".dropped"
_CHUNK = 1000
_PAGE = 2000
_STAMP = ["version", "text_hash"]
_SCHEMAS = {
    "keyword": edge.PayloadSchemaType.Keyword,
    "float": edge.PayloadSchemaType.Float,
    "datetime": edge.PayloadSchemaType.Datetime,
}


class EdgeIndex:
    """Collections in folders below `root`, held only while they are worked on or nobody else waits.

    `wait` bounds how long a call waits for a folder another process holds; then it raises Busy,
    naming that process.
    """

    def __init__(self, root: Path, *, wait: timedelta, keep_open: int = 8) -> None:
        self._root = root
        self._wait_seconds = wait.total_seconds()
        self._aliases = AliasFiles(root, self._wait_seconds)
        self._widths: dict[str, int] = {}
        self._shards = OpenShards(root, _load, self._wait_seconds, keep_open)

    def create(self, collection: str, dimensions: int) -> None:
        """Make a collection; there already: nothing. Its folder gets its name when it is whole."""
        folder = self._root / collection
        with _Translated(collection):
            if folder.is_dir():
                return
            self._root.mkdir(parents=True, exist_ok=True)
            with self._held(folder):
                if not folder.is_dir():
                    fresh = folder.with_name(f"{collection}{_UNFINISHED}")
                    shutil.rmtree(fresh, ignore_errors=True)
                    fresh.mkdir()
                    _make(fresh, dimensions)
                    fresh.rename(folder)

    def drop(self, collection: str) -> None:
        """Remove a collection; gone already: nothing. Raises Conflict while an alias names it.

        What a killed drop left behind is removed by the next.
        """
        folder = self._root / collection
        doomed = folder.with_name(f"{collection}{_DOOMED}")
        with _Translated(collection):
            if not folder.is_dir() and not doomed.is_dir():
                return
            self._refuse_named(collection)  # before anybody is disturbed
            self._shards.let_go(collection)
            with self._held(folder):
                shutil.rmtree(doomed, ignore_errors=True)
                # Aliases stand still for a rename only, not while a folder is waited for or deleted.
                with self._aliases.locked():
                    self._refuse_named(collection)
                    if folder.is_dir():
                        folder.rename(doomed)
                shutil.rmtree(doomed, ignore_errors=True)
            self._widths.pop(collection, None)

    def collections(self) -> frozenset[str]:
        """Names of all collections."""
        with _Translated(self._root.name):
            if not self._root.is_dir():
                return frozenset()
            folders = [entry.name for entry in self._root.iterdir() if entry.is_dir()]
        return frozenset(name for name in folders if not name.endswith((_UNFINISHED, _DOOMED)))

    def upsert(self, collection: str, points: Sequence[Point]) -> None:
        """Store points, each over an equal or older version only.

        Raises BadAnswer for vectors that are none, before anything is written; Refused for a payload
        the index cannot hold (NaN, a lone surrogate).
        """
        if not points:
            return
        rows = unit_rows([point.vector for point in points], self._width(collection))
        for start in range(0, len(points), _CHUNK):
            part = slice(start, start + _CHUNK)
            self._apply(collection, _upserts(points[part], rows[part]))

    def set_payload(self, collection: str, payloads: Sequence[Payload]) -> None:
        """Replace payloads whole where the text is the same and the stored version older. Raises Refused."""
        for start in range(0, len(payloads), _CHUNK):
            self._apply(collection, [_overwrite(payload) for payload in payloads[start : start + _CHUNK]])

    def delete(self, collection: str, versions: Mapping[uuid.UUID, int]) -> None:
        """Remove points whose stored version is not newer than the one given."""
        given = list(versions.items())
        for start in range(0, len(given), _CHUNK):
            self._apply(collection, _deletions(given[start : start + _CHUNK]))

    def stamps(self, collection: str, ids: Sequence[uuid.UUID]) -> dict[uuid.UUID, Stamp]:
        """Version and text hash of the points that are there."""
        with self._call(collection) as shard:
            records = shard.retrieve(list(ids), with_payload=_STAMP, with_vector=False)
            return {_uuid(record.id): _stamp(record.payload) for record in records}

    def vectors(self, collection: str, ids: Sequence[uuid.UUID]) -> dict[uuid.UUID, Vector]:
        """Stored vectors (normalised) of the points that are there."""
        with self._call(collection) as shard:
            records = shard.retrieve(list(ids), with_payload=False, with_vector=True)
            return {_uuid(record.id): np.asarray(record.vector[_VECTOR], dtype=np.float32) for record in records}

    def payloads(self, collection: str, ids: Sequence[uuid.UUID]) -> dict[uuid.UUID, Mapping[str, Any]]:
        """Stored payloads, whole, of the points that are there."""
        with self._call(collection) as shard:
            records = shard.retrieve(list(ids), with_payload=True, with_vector=False)
            return {_uuid(record.id): dict(record.payload) for record in records}

    def vectors_of_texts(self, collection: str, tenant: str, hashes: Sequence[str]) -> dict[str, Vector]:
        """For each text hash that some point of this tenant carries, that point's vector."""
        found: dict[str, Vector] = {}
        missing = list(dict.fromkeys(hashes))
        with self._call(collection) as shard:
            while missing:
                records, _ = shard.scroll(_carrying(tenant, missing))
                for record in records:
                    found[record.payload["text_hash"]] = np.asarray(record.vector[_VECTOR], dtype=np.float32)
                if len(records) < len(missing):
                    break  # that was all; else one text may have filled the page
                missing = [one for one in missing if one not in found]
        return found

    def search(self, collection: str, vector: Vector, selection: Selection, limit: int) -> list[Hit]:
        """The nearest points that meet the selection, nearest first. Raises BadAnswer, Refused, as `upsert` does."""
        row = unit_rows([vector], self._width(collection))[0]
        with _accepted("selection", lambda: "a search"):
            request = edge.QueryRequest(
                query=edge.Query.Nearest(row.tolist(), using=_VECTOR),
                filter=_filter(selection),
                limit=limit,
                with_payload=False,
            )
        with self._call(collection) as shard:
            return [Hit(_uuid(point.id), float(point.score)) for point in shard.query(request)]

    def scroll(self, collection: str, start: uuid.UUID | None = None) -> Iterator[tuple[uuid.UUID, Stamp]]:
        """Every point's id and stamp, in the order of ids; others may work on the folder between pages."""
        offset: Any = start
        while True:
            with self._call(collection) as shard:
                page = edge.ScrollRequest(offset=offset, limit=_PAGE, with_payload=_STAMP, with_vector=False)
                records, offset = shard.scroll(page)
                stamped = [(_uuid(record.id), _stamp(record.payload)) for record in records]
            yield from stamped
            if offset is None:
                return

    def count(self, collection: str) -> int:
        """Exact number of points."""
        with self._call(collection) as shard:
            return int(shard.count(edge.CountRequest(exact=True)))

    def alias(self, alias: str) -> str | None:
        """The collection an alias names, or None."""
        with _Translated(alias):
            return self._aliases.read(alias)

    def point_alias(self, alias: str, collection: str, expected: str | None) -> None:
        """Compare and set an alias. Raises NotFound for a collection that is not there, Conflict."""
        with _Translated(alias), self._aliases.locked():
            if not (self._root / collection).is_dir():
                raise NotFound(f"there is no collection {collection}")
            self._aliases.point(alias, collection, expected)

    def close(self) -> None:
        """Close every open shard and let other processes in. Raises Unavailable when calls do not end."""
        with _Translated(self._root.name):
            self._shards.close()

    def _width(self, collection: str) -> int:
        """How many dimensions a collection's vectors have; its folder says so, and never changes its mind."""
        if collection not in self._widths:
            with _Translated(collection):
                try:
                    self._widths[collection] = int((self._root / collection / _WIDTH_FILE).read_text(encoding="ascii"))
                except FileNotFoundError:
                    raise NotFound(f"there is no collection {collection}") from None
        return self._widths[collection]

    def _refuse_named(self, collection: str) -> None:
        naming = self._aliases.naming(collection)
        if naming:
            raise Conflict(f"collection {collection} is named by {', '.join(naming)}", current=naming[0])

    def _apply(self, collection: str, operations: Sequence[edge.UpdateOperation]) -> None:
        # In one call: between two calls another process may take the folder, and taking it costs 0.1 s.
        with self._call(collection) as shard:
            for operation in operations:
                shard.update(operation)

    @contextmanager
    def _call(self, collection: str) -> Iterator[Any]:
        with _Translated(collection), self._shards.use(collection) as shard:
            yield shard

    @contextmanager
    def _held(self, folder: Path) -> Iterator[None]:
        hold = Hold(folder)
        hold.take(self._wait_seconds)
        try:
            yield
        finally:
            hold.release()


class _Translated:
    """Around calls of the library and of the file system: what they raise leaves as an error of the engine.

    The library raises bare `Exception` and nothing more particular, so its text tells what little it
    says; a panic inside it is not even an Exception. Errors of our own code pass as they are.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is Exception or (kind is not None and kind.__name__ == "PanicException"):
            raise _failure(str(error), self._name) from error
        if isinstance(error, PermissionError):
            raise Misconfigured(f"the index may not use its files of {self._name}") from error
        if isinstance(error, OSError):
            raise Unavailable(f"the index cannot use its files of {self._name}") from error


def _failure(message: str, collection: str) -> EngineError:
    if "WouldBlock" in message:
        return Busy(f"index folder {collection} is held by another program")
    return Unavailable(f"the index failed on collection {collection}")


def _load(folder: Path) -> Any:
    return edge.EdgeShard.load(str(folder))


def _make(folder: Path, dimensions: int) -> None:
    params = edge.EdgeVectorParams(size=dimensions, distance=edge.Distance.Cosine)
    shard = edge.EdgeShard.create(str(folder), edge.EdgeConfig(vectors={_VECTOR: params}))
    for field, kind in PAYLOAD_FIELDS.items():
        shard.update(edge.UpdateOperation.create_field_index(field, _SCHEMAS[kind]))
    shard.flush()
    shard.close()
    (folder / _WIDTH_FILE).write_text(str(dimensions), encoding="ascii")


@contextmanager
def _accepted(where: str, whose: Callable[[], object]) -> Iterator[None]:
    """Around handing values to the library, which cannot hold all that Python can (NaN, a lone surrogate)."""
    try:
        yield
    except (TypeError, ValueError, OverflowError) as error:
        raise Refused(f"the index cannot take the {where} of {whose()}", where=where) from error


def _upserts(points: Sequence[Point], rows: NDArray[np.float32]) -> list[edge.UpdateOperation]:
    """One operation a version: its condition is asked of the stored point, and what is not stored goes in."""
    by_version: dict[int, list[edge.Point]] = defaultdict(list)
    made: list[edge.Point] = []
    payloads = [point.payload for point in points]
    with _accepted("payload", lambda: payloads[len(made)].embedding_id):
        for payload, vector in zip(payloads, rows.tolist(), strict=True):
            made.append(edge.Point(payload.embedding_id, {_VECTOR: vector}, payload.fields))
    for payload, one in zip(payloads, made, strict=True):
        by_version[payload.stamp.version].append(one)
    return [
        edge.UpdateOperation.upsert_points(same, condition=edge.Filter(must=[_not_above(version)]))
        for version, same in by_version.items()
    ]


def _overwrite(payload: Payload) -> edge.UpdateOperation:
    same_and_older = edge.Filter(
        must=[
            edge.HasIdCondition({payload.embedding_id}),
            _equals("text_hash", payload.stamp.text_hash),
            _not_above(payload.stamp.version - 1),
        ]
    )
    with _accepted("payload", lambda: payload.embedding_id):
        return edge.UpdateOperation.overwrite_payload_by_filter(same_and_older, payload.fields)


def _deletions(versions: Sequence[tuple[uuid.UUID, int]]) -> list[edge.UpdateOperation]:
    by_version: dict[int, set[edge.PointId]] = defaultdict(set)
    for point_id, version in versions:
        by_version[version].add(point_id)
    return [
        edge.UpdateOperation.delete_points_by_filter(edge.Filter(must=[edge.HasIdCondition(ids), _not_above(version)]))
        for version, ids in by_version.items()
    ]


def _filter(selection: Selection) -> edge.Filter:
    filters = selection.filters
    must: list[Any] = [_equals("tenant", selection.tenant)]
    must += [_equals(field, value) for field, value in filters.equalities.items()]
    must += [_equals("tags", tag) for tag in filters.tags_all]
    must += [_equals("labels", label_value(*pair)) for pair in filters.labels.items()]
    if filters.tags_any:
        must.append(edge.FieldCondition(key="tags", match=edge.MatchAny(any=list(filters.tags_any))))
    if filters.min_importance is not None:
        must.append(edge.FieldCondition(key="importance", range=edge.RangeFloat(gte=filters.min_importance)))
    if filters.created_from is not None or filters.created_to is not None:
        span = edge.RangeDateTime(
            gte=None if filters.created_from is None else as_rfc3339(filters.created_from),
            lt=None if filters.created_to is None else as_rfc3339(filters.created_to),
        )
        must.append(edge.FieldCondition(key="created_at", range=span))
    gone = edge.FieldCondition(key="expires_at", range=edge.RangeDateTime(lte=as_rfc3339(selection.alive_at)))
    return edge.Filter(must=must, must_not=[gone])


def _carrying(tenant: str, hashes: Sequence[str]) -> edge.ScrollRequest:
    """A page of one tenant's points with these text hashes. Each page that is full finds at least one more hash."""
    any_of = edge.FieldCondition(key="text_hash", match=edge.MatchAny(any=list(hashes)))
    chosen = edge.Filter(must=[_equals("tenant", tenant), any_of])
    return edge.ScrollRequest(limit=len(hashes), filter=chosen, with_payload=["text_hash"], with_vector=True)


def _equals(field: str, value: str) -> edge.FieldCondition:
    return edge.FieldCondition(key=field, match=edge.MatchValue(value=value))


def _not_above(version: int) -> edge.FieldCondition:
    # Compared as 64-bit floats, exact below 2**53, where every version is.
    return edge.FieldCondition(key="version", range=edge.RangeFloat(lte=float(version)))


def _stamp(payload: Any) -> Stamp:
    return Stamp(int(payload["version"]), str(payload["text_hash"]))


def _uuid(point_id: Any) -> uuid.UUID:
    return point_id if isinstance(point_id, uuid.UUID) else uuid.UUID(str(point_id))
