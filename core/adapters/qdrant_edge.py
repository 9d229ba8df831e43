"""The port `VectorIndex` on Qdrant Edge: Qdrant's engine in this process, one folder a collection.

Every call of the library holds Python's interpreter lock, and its HNSW build blocks for seconds: it is
never started here (plain search serves to about 100,000 points).
"""

from __future__ import annotations

import shutil
import uuid
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import qdrant_edge as edge

from core.adapters.alias_file import AliasFiles
from core.adapters.edge_hold import Hold
from core.adapters.edge_shards import OpenShards
from core.errors import BadAnswer, Busy, Conflict, EngineError, NotFound, Unavailable
from core.model.point import PAYLOAD_FIELDS, Hit, Payload, Point, Stamp, Vector, as_rfc3339
from core.model.query import Selection

_VECTOR = "text"
_WIDTH_FILE = "memory-dimensions"
_CHUNK = 1000
_PAGE = 2000
_STAMP = ["version", "text_hash"]
_SCHEMAS = {
    "keyword": edge.PayloadSchemaType.Keyword,
    "integer": edge.PayloadSchemaType.Integer,
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
        if folder.is_dir():
            return
        self._root.mkdir(parents=True, exist_ok=True)
        hold = Hold(folder)
        hold.take(self._wait_seconds)
        try:
            if not folder.is_dir():
                fresh = folder.with_name(f"{collection}.new")
                shutil.rmtree(fresh, ignore_errors=True)
                fresh.mkdir()
                _make(fresh, dimensions)
                fresh.rename(folder)
        finally:
            hold.release()

    def drop(self, collection: str) -> None:
        """Remove a collection; gone already: nothing. Raises Conflict while an alias names it."""
        folder = self._root / collection
        if not folder.is_dir():
            return
        with self._aliases.locked():
            naming = self._aliases.naming(collection)
            if naming:
                raise Conflict(f"collection {collection} is named by {', '.join(naming)}", current=naming[0])
            self._shards.let_go(collection)
            hold = Hold(folder)
            hold.take(self._wait_seconds)
            try:
                doomed = folder.with_name(f"{collection}.dropped")
                shutil.rmtree(doomed, ignore_errors=True)
                folder.rename(doomed)
                shutil.rmtree(doomed)
            finally:
                hold.release()

    def collections(self) -> frozenset[str]:
        """Names of all collections."""
        if not self._root.is_dir():
            return frozenset()
        unfinished = (".new", ".dropped")
        return frozenset(
            entry.name for entry in self._root.iterdir() if entry.is_dir() and not entry.name.endswith(unfinished)
        )

    def upsert(self, collection: str, points: Sequence[Point]) -> None:
        """Store points, each over an equal or older version only; BadAnswer for vectors that are none."""
        by_version: dict[int, list[Point]] = defaultdict(list)
        for point in points:
            by_version[point.payload.stamp.version].append(point)
        if points:
            _check([point.vector for point in points], self._width(collection))
        for version, same in by_version.items():
            for start in range(0, len(same), _CHUNK):
                made = [_edge_point(point) for point in same[start : start + _CHUNK]]
                # The condition is asked of points that are there already; new ones go in.
                condition = edge.Filter(must=[_not_above(version)])
                with self._call(collection) as shard:
                    shard.update(edge.UpdateOperation.upsert_points(made, condition=condition))

    def set_payload(self, collection: str, payloads: Sequence[Payload]) -> None:
        """Replace payloads whole where the text is the same and the stored version older."""
        for start in range(0, len(payloads), _CHUNK):
            with self._call(collection) as shard:
                for payload in payloads[start : start + _CHUNK]:
                    same_and_older = edge.Filter(
                        must=[
                            edge.HasIdCondition({payload.embedding_id}),
                            _equals("text_hash", payload.stamp.text_hash),
                            _not_above(payload.stamp.version - 1),
                        ]
                    )
                    shard.update(edge.UpdateOperation.overwrite_payload_by_filter(same_and_older, payload.fields))

    def delete(self, collection: str, versions: Mapping[uuid.UUID, int]) -> None:
        """Remove points whose stored version is not newer than the one given."""
        by_version: dict[int, set[uuid.UUID]] = defaultdict(set)
        for point_id, version in versions.items():
            by_version[version].add(point_id)
        for version, ids in by_version.items():
            condition = edge.Filter(must=[edge.HasIdCondition(set(ids)), _not_above(version)])
            with self._call(collection) as shard:
                shard.update(edge.UpdateOperation.delete_points_by_filter(condition))

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

    def search(self, collection: str, vector: Vector, selection: Selection, limit: int) -> list[Hit]:
        """The nearest points that meet the selection, nearest first."""
        _check([vector], self._width(collection))
        request = edge.QueryRequest(
            query=edge.Query.Nearest(vector.tolist(), using=_VECTOR),
            filter=_filter(selection),
            limit=limit,
            with_payload=False,
        )
        with self._call(collection) as shard:
            return [Hit(_uuid(point.id), float(point.score)) for point in shard.query(request)]

    def scroll(self, collection: str) -> Iterator[tuple[uuid.UUID, Stamp]]:
        """Every point's id and stamp, in the order of ids; others may work on the folder between pages."""
        offset: Any = None
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
        return self._aliases.read(alias)

    def point_alias(self, alias: str, collection: str, expected: str | None) -> None:
        """Compare and set an alias. Raises NotFound for a collection that is not there, Conflict."""
        if not (self._root / collection).is_dir():
            raise NotFound(f"there is no collection {collection}")
        self._aliases.point(alias, collection, expected)

    def close(self) -> None:
        """Close every open shard and let other processes in."""
        self._shards.close()

    def _width(self, collection: str) -> int:
        """How many dimensions a collection's vectors have; its folder says so, and never changes its mind."""
        known = self._widths.get(collection)
        if known is None:
            try:
                known = int((self._root / collection / _WIDTH_FILE).read_text(encoding="ascii"))
            except FileNotFoundError:
                raise NotFound(f"there is no collection {collection}") from None
            self._widths[collection] = known
        return known

    @contextmanager
    def _call(self, collection: str) -> Iterator[Any]:
        with self._shards.use(collection) as shard, _translated(collection):
            yield shard


@contextmanager
def _translated(collection: str) -> Iterator[None]:
    """The library raises plain `Exception` and nothing more particular: its text tells what little it says."""
    try:
        yield
    except Exception as error:
        if type(error) is Exception:
            raise _failure(str(error), collection) from error
        raise


def _failure(message: str, collection: str) -> EngineError:
    if "WouldBlock" in message:
        return Busy(f"index folder {collection} is held by another program")
    return Unavailable(f"the index failed on collection {collection}")


def _load(folder: Path) -> Any:
    with _translated(folder.name):
        return edge.EdgeShard.load(str(folder))


def _make(folder: Path, dimensions: int) -> None:
    with _translated(folder.name):
        params = edge.EdgeVectorParams(size=dimensions, distance=edge.Distance.Cosine)
        shard = edge.EdgeShard.create(str(folder), edge.EdgeConfig(vectors={_VECTOR: params}))
        for field, kind in PAYLOAD_FIELDS.items():
            shard.update(edge.UpdateOperation.create_field_index(field, _SCHEMAS[kind]))
        shard.flush()
        shard.close()
        (folder / _WIDTH_FILE).write_text(str(dimensions), encoding="ascii")


def _check(vectors: Sequence[Vector], width: int) -> None:
    """The engine itself stores NaN (which scores first in every answer), zero, and half a batch of mixed widths."""
    if any(vector.shape != (width,) for vector in vectors):
        raise BadAnswer(f"a vector has not the collection's {width} dimensions")
    rows = np.stack(list(vectors))
    if not (np.isfinite(rows).all() and rows.any(axis=1).all()):
        raise BadAnswer("a vector is zero or not finite")


def _edge_point(point: Point) -> edge.Point:
    return edge.Point(point.payload.embedding_id, {_VECTOR: point.vector.tolist()}, point.payload.fields)


def _filter(selection: Selection) -> edge.Filter:
    filters = selection.filters
    must: list[Any] = [_equals("tenant", selection.tenant)]
    must += [_equals(field, value) for field, value in filters.equalities.items()]
    must += [_equals("tags", tag) for tag in filters.tags_all]
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


def _equals(field: str, value: str) -> edge.FieldCondition:
    return edge.FieldCondition(key=field, match=edge.MatchValue(value=value))


def _not_above(version: int) -> edge.FieldCondition:
    # Compared as 64-bit floats, exact below 2**53, where every version is.
    return edge.FieldCondition(key="version", range=edge.RangeFloat(lte=float(version)))


def _stamp(payload: Any) -> Stamp:
    return Stamp(int(payload["version"]), str(payload["text_hash"]))


def _uuid(point_id: Any) -> uuid.UUID:
    return point_id if isinstance(point_id, uuid.UUID) else uuid.UUID(str(point_id))
