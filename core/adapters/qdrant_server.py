"""The port `VectorIndex` on a Qdrant server, over REST or gRPC.

Guards are conditions in the requests themselves, so that the server compares and writes in one step.
Nothing is tried twice here: a call that failed without an answer may have been done, and may be repeated.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from core.adapters.qdrant_aliases import Action, MarkedAliases
from core.adapters.qdrant_batches import newest, parts, row_bytes, sent_bytes
from core.adapters.qdrant_requests import (
    VECTOR,
    Client,
    Operation,
    QdrantOptions,
    alias_operation,
    carrying,
    completed,
    condition,
    connect,
    creation,
    deletions,
    fitting,
    indexes,
    overwrite,
    search_params,
    translated,
    unindexed,
    upserts,
)
from core.errors import BadAnswer, Conflict, Misconfigured, Refused, Unavailable
from core.model.point import Hit, Payload, Point, Stamp, Vector, unit_rows
from core.model.query import Selection

_STAMP = ["version", "text_hash"]
_PAGE = 1000
_MOST_BYTES = 30 * 2**20  # the server ends a request at 32 MiB


class QdrantIndex:
    """Collections on a server, under the names they are given; an index on every field that is filtered by.

    `client` is used instead of a connection of its own (the library's local mode, in tests). Dropping a
    collection and pointing an alias at it exclude each other within one process only; between processes
    the record's barrier does.
    """

    def __init__(
        self,
        options: QdrantOptions,
        client: Client | None = None,
        new_id: Callable[[], uuid.UUID] = uuid.uuid4,
    ) -> None:
        if not (0 < options.batch_bytes <= _MOST_BYTES and options.batch_count > 0):
            raise Misconfigured(f"a batch takes 1 point or more, and 1 to {_MOST_BYTES} bytes")
        self._options = options
        self._client = client or connect(options)
        self._widths: dict[str, int] = {}
        self._naming = threading.Lock()
        self._aliases = MarkedAliases(self._listed, self.collections, self._change_aliases, lambda: new_id().hex)

    def create(self, collection: str, dimensions: int) -> None:
        """Make a collection and its payload indexes; one that is there is completed, and otherwise left alone.

        Raises Conflict when the name is an alias.
        """
        try:
            with translated(collection):
                self._client.create_collection(collection, **creation(self._options, dimensions))
        except (Conflict, Refused):
            # Servers differ in how they say that a name is taken.
            if collection in self._listed():
                raise Conflict(f"{collection} is the name of an alias") from None
            if collection not in self.collections():
                raise
        self._complete(collection)

    def drop(self, collection: str) -> None:
        """Remove a collection by its own name; gone already: nothing. Raises Conflict while an alias names it."""
        with self._naming, translated(collection):
            if collection not in self.collections():
                if collection in self._listed():
                    raise Conflict(f"{collection} is the name of an alias")
                return
            # The server itself deletes every alias of a collection it drops, without a word.
            if naming := self._aliases.naming(collection):
                raise Conflict(f"collection {collection} is named by {', '.join(naming)}", current=naming[0])
            self._client.delete_collection(collection)
            self._widths.pop(collection, None)

    def collections(self) -> frozenset[str]:
        """Names of all collections."""
        with translated("collections"):
            return frozenset(one.name for one in self._client.get_collections().collections)

    def upsert(self, collection: str, points: Sequence[Point]) -> None:
        """Store points, each over an equal or older version only.

        Raises BadAnswer for vectors that are none, Refused for a payload the server cannot hold: for the
        whole call, before anything is sent.
        """
        if not points:
            return
        width = self._width(collection)
        rows = unit_rows([point.vector for point in points], width)
        places = newest(points)
        kept, rows = [points[place] for place in places], rows[places]
        sizes = [sent_bytes(point.payload, width) for point in kept]
        for part in self._parts(sizes):
            self._apply(collection, upserts(kept[part], rows[part].tolist()))

    def set_payload(self, collection: str, payloads: Sequence[Payload]) -> None:
        """Replace payloads whole where the text is the same and the stored version older. Raises Refused."""
        for part in self._parts([sent_bytes(payload) for payload in payloads]):
            self._apply(collection, [overwrite(payload) for payload in payloads[part]])

    def delete(self, collection: str, versions: Mapping[uuid.UUID, int]) -> None:
        """Remove points whose stored version is not newer than the one given."""
        given = list(versions.items())
        for part in self._parts([1] * len(given)):
            self._apply(collection, deletions(given[part]))

    def stamps(self, collection: str, ids: Sequence[uuid.UUID]) -> dict[uuid.UUID, Stamp]:
        """Version and text hash of the points that are there."""
        records = self._records(collection, ids, width=0, with_payload=_STAMP)
        return {_uuid(record): _stamp(record.payload) for record in records}

    def vectors(self, collection: str, ids: Sequence[uuid.UUID]) -> dict[uuid.UUID, Vector]:
        """Stored vectors (normalised) of the points that are there."""
        if not ids:
            return {}
        width = self._width(collection)
        records = self._records(collection, ids, width, with_payload=False, with_vectors=[VECTOR])
        return {_uuid(record): _vector(record) for record in records}

    def payloads(self, collection: str, ids: Sequence[uuid.UUID]) -> dict[uuid.UUID, Mapping[str, Any]]:
        """Stored payloads, whole, of the points that are there."""
        if not ids:
            return {}
        width = self._width(collection)
        records = self._records(collection, ids, width, with_payload=True, with_vectors=False)
        return {_uuid(record): dict(record.payload) for record in records}

    def vectors_of_texts(self, collection: str, tenant: str, hashes: Sequence[str]) -> dict[str, Vector]:
        """For each text hash that some point of this tenant carries, that point's vector."""
        found: dict[str, Vector] = {}
        asked = list(dict.fromkeys(hashes))
        for part in self._parts([row_bytes(self._width(collection))] * len(asked)):
            missing = asked[part]
            while missing:
                records = self._carriers(collection, tenant, missing)
                found |= {record.payload["text_hash"]: _vector(record) for record in records}
                if len(records) < len(missing):
                    break  # that was all; else one text may have filled the page
                missing = [one for one in missing if one not in found]
        return found

    def search(self, collection: str, vector: Vector, selection: Selection, limit: int) -> list[Hit]:
        """The nearest points that meet the selection, nearest first. Raises BadAnswer, Refused, as `upsert` does."""
        row = unit_rows([vector], self._width(collection))[0]
        with translated(collection):
            found = self._client.query_points(
                collection,
                query=row.tolist(),
                using=VECTOR,
                query_filter=condition(selection),
                search_params=search_params(self._options),
                limit=limit,
                with_payload=False,
            )
            return [Hit(_uuid(point), float(point.score)) for point in found.points]

    def scroll(self, collection: str, start: uuid.UUID | None = None) -> Iterator[tuple[uuid.UUID, Stamp]]:
        """Every point's id and stamp, in the order of ids, page by page. A failure raises."""
        offset: Any = None if start is None else str(start)
        while True:
            with translated(collection):
                records, following = self._client.scroll(
                    collection, limit=_PAGE, offset=offset, with_payload=_STAMP, with_vectors=False
                )
            yield from [(_uuid(record), _stamp(record.payload)) for record in records]
            if following is None:
                return
            if not records or following == offset:
                raise BadAnswer(f"the scroll of {collection} stands still")
            offset = following

    def count(self, collection: str) -> int:
        """Exact number of points."""
        with translated(collection):
            return self._client.count(collection, exact=True).count

    def alias(self, alias: str) -> str | None:
        """The collection an alias names, or None. Lists all aliases: the server has no question about one."""
        return self._listed().get(alias)

    def point_alias(self, alias: str, collection: str, expected: str | None) -> None:
        """Compare and set an alias, and read it back. Raises NotFound, Conflict.

        What a server that died half-way left is finished by the next call whose `expected` is right.
        """
        with self._naming:
            self._aliases.point(alias, collection, expected)

    def begin_bulk(self, collection: str) -> None:
        """Let the server build no HNSW graph while much is loaded. Search meanwhile reads every vector."""
        with translated(collection):
            self._client.update_collection(collection, **unindexed())

    def end_bulk(self, collection: str) -> None:
        """Let it build, and keep the collection as fits its size. May be called again, and after a killed run."""
        points = self.count(collection)
        with translated(collection):
            self._client.update_collection(collection, **fitting(self._options, points))

    def close(self) -> None:
        """Close the connections."""
        with translated("close"):
            self._client.close()

    def _complete(self, collection: str) -> None:
        with translated(collection):
            made = self._client.get_collection(collection).payload_schema
            for name, schema in indexes().items():
                if name not in made:
                    self._client.create_payload_index(collection, name, field_schema=schema, wait=True)

    def _width(self, collection: str) -> int:
        """How many dimensions a collection's vectors have. Names are never used twice, so it never changes."""
        if collection not in self._widths:
            with translated(collection):
                made = self._client.get_collection(collection).config.params.vectors
            if not isinstance(made, dict) or VECTOR not in made:
                raise BadAnswer(f"collection {collection} has no vector called {VECTOR}: it is none of ours")
            self._widths[collection] = made[VECTOR].size
        return self._widths[collection]

    def _parts(self, sizes: Sequence[int]) -> Iterator[slice]:
        return parts(sizes, self._options.batch_count, self._options.batch_bytes)

    def _apply(self, collection: str, operations: Sequence[Operation]) -> None:
        # One request for conditions of many versions: a request each would be as many round trips.
        with translated(collection):
            results = self._client.batch_update_points(collection, operations, wait=True)
        if not completed(results):
            raise Unavailable(f"the vector server took the writes to {collection} but has not done them yet")

    def _carriers(self, collection: str, tenant: str, hashes: Sequence[str]) -> Sequence[Any]:
        with translated(collection):
            records, _ = self._client.scroll(
                collection,
                scroll_filter=carrying(tenant, hashes),
                limit=len(hashes),
                with_payload=["text_hash"],
                with_vectors=[VECTOR],
            )
            return records

    def _records(self, collection: str, ids: Sequence[uuid.UUID], width: int, **wanted: Any) -> Iterator[Any]:
        for part in self._parts([row_bytes(width)] * len(ids)):
            with translated(collection):
                yield from self._client.retrieve(collection, [str(one) for one in ids[part]], **wanted)

    def _listed(self) -> dict[str, str]:
        with translated("aliases"):
            return {one.alias_name: one.collection_name for one in self._client.get_aliases().aliases}

    def _change_aliases(self, actions: Sequence[Action]) -> None:
        with translated("alias"):
            self._client.update_collection_aliases([alias_operation(action) for action in actions])


def _stamp(payload: Any) -> Stamp:
    if not isinstance(payload, dict) or not payload.keys() >= {"version", "text_hash"}:
        raise BadAnswer("a stored point has no version or no text hash: it is none of ours")
    return Stamp(int(payload["version"]), str(payload["text_hash"]))


def _vector(record: Any) -> Vector:
    return np.asarray(record.vector[VECTOR], dtype=np.float32)


def _uuid(record: Any) -> uuid.UUID:
    return record.id if isinstance(record.id, uuid.UUID) else uuid.UUID(str(record.id))
