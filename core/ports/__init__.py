"""What the engine asks of engines: narrow, so that each has a fake of 60 lines beside the real ones.

Every implementation raises only the errors of `core.errors`, is safe to call from several threads,
bounds each call by a timeout of its own, and is closed once, by whoever opened it.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, BinaryIO, Literal, Protocol, runtime_checkable

from core.errors import EngineError
from core.model.point import Hit, Payload, Point, Stamp, Vector
from core.model.query import Selection
from core.model.space import EmbeddingSpace
from core.ports.event_stream import EventStream
from core.ports.key_provider import KeyProvider
from core.ports.throttle import Throttle

__all__ = [
    "BatchEmbedder",
    "BatchLimits",
    "BatchResult",
    "BatchState",
    "BlobInfo",
    "BlobStore",
    "BulkLoads",
    "Cache",
    "EmbedLimits",
    "Embedder",
    "Embeddings",
    "EventStream",
    "KeepsVersions",
    "KeyProvider",
    "Locks",
    "TakesTurns",
    "Throttle",
    "VectorIndex",
    "Versioned",
]

TextKind = Literal["document", "query"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedLimits:
    """What one call takes at the most; None: the provider names no such limit. Tokens are estimates."""

    items: int
    tokens: int | None = None
    bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Embeddings:
    """Vectors, float32, one row a text in the order of the texts; and the tokens the provider counted for them."""

    vectors: Vector
    tokens: int = 0


class Embedder(Protocol):
    """Texts to vectors, all in one space."""

    @property
    def space(self) -> EmbeddingSpace:
        """The space its vectors are in."""

    @property
    def limits(self) -> EmbedLimits:
        """What one call takes at the most."""

    def embed(self, texts: Sequence[str], kind: TextKind) -> Embeddings:
        """Vectors of `texts`: one or more prepared texts within the limits, none of them blank. One request.

        Raises BadAnswer when the answer is no matrix of finite, non-zero rows (`index` in its details when
        one row is to blame); Refused when a text is not taken (`index` names it if the provider does,
        `reason` "size" says that the request as a whole is too big); Overloaded, Unavailable; and
        Misconfigured, whose `reason` is "auth", "model" or "quota", when a person has to act.
        """

    def close(self) -> None:
        """Give back what is held."""


@runtime_checkable
class TakesTurns(Protocol):
    """An embedder that keeps tenants from crowding each other out; implemented where there are limits to share."""

    def of_tenant(self, tenant: str) -> Embedder:
        """The same embedder, asked in this tenant's turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLimits:
    """What a batch job takes: inputs, and bytes of its file; `tokens` (estimated) may wait in all jobs at once."""

    inputs: int
    bytes: int
    tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchState:
    """How a batch job stands at the provider. `reason` is why it failed, in short names.

    `files` hold results, also of one that expired or was cancelled in part; `sent` is the file it was given.
    """

    phase: Literal["running", "completed", "expired", "cancelled", "failed"]
    done: int = 0
    sent: str | None = None
    files: tuple[str, ...] = ()
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class BatchResult:
    """What became of one input: a usable vector and the tokens counted for it, or the problem."""

    key: str
    vector: Vector | None
    tokens: int = 0
    problem: EngineError | None = None


class BatchEmbedder(Protocol):
    """Texts to vectors by jobs that take hours, in the same space as the `Embedder` of that model.

    A job has a name of ours, by which it is found again after a crash, and an id of the provider's. Every
    method raises what `Embedder.embed` does, and NotFound for a job or file that the provider does not know.
    """

    @property
    def space(self) -> EmbeddingSpace:
        """The space its vectors are in."""

    @property
    def limits(self) -> BatchLimits:
        """What a job takes at the most."""

    def line(self, key: str, text: str) -> bytes:
        """The line of a job's file that asks for the vector of a prepared document text, under an opaque key."""

    def submit(self, name: str, file: BinaryIO) -> str:
        """Start a job of a file of lines; its id. When this raises, the job may have begun: ask `found`."""

    def found(self, name: str, since: datetime) -> str | None:
        """Id of the job whose submitting began at `since` or later, which is ended if it was broken off half-way.

        None: nothing was sent, and what was asked then can no longer begin. Raises Unavailable when nobody can say.
        """

    def poll(self, job: str) -> BatchState:
        """How a job stands now."""

    def results(self, state: BatchState) -> Iterator[BatchResult]:
        """Results of an ended job, in any order, each perhaps more than once, in bounded memory.

        What cannot be read as a result is left out. A file that breaks off raises: no short end.
        """

    def cancel(self, job: str) -> None:
        """Ask for the end of a job; ended already: nothing."""

    def discard(self, state: BatchState) -> None:
        """Have the provider delete a job's files; gone already: nothing."""

    def close(self) -> None:
        """Give back what is held."""


class VectorIndex(Protocol):
    """Collections of points, and aliases that name one collection each.

    The three kinds of write are guarded by the record's version, so that repeating one, or doing it
    late, never replaces newer by older. Calls on a collection that is not there raise NotFound,
    except where said otherwise. Every write is visible to the next call when it returns.
    """

    def create(self, collection: str, dimensions: int) -> None:
        """Make a collection for cosine search with an index on every payload field; there already: nothing."""

    def drop(self, collection: str) -> None:
        """Remove a collection by its own name; gone already: nothing. Conflict while an alias names it."""

    def collections(self) -> frozenset[str]:
        """Names of all collections."""

    def upsert(self, collection: str, points: Sequence[Point]) -> None:
        """Store points, each over an equal or older version of itself, never over a newer one."""

    def set_payload(self, collection: str, payloads: Sequence[Payload]) -> None:
        """Replace payloads whole, keeping the vector, where the text hash is the same and the version older."""

    def delete(self, collection: str, versions: Mapping[uuid.UUID, int]) -> None:
        """Remove points whose stored version is not newer than the one given; an empty mapping does nothing."""

    def stamps(self, collection: str, ids: Sequence[uuid.UUID]) -> dict[uuid.UUID, Stamp]:
        """Version and text hash of the points that are there."""

    def vectors(self, collection: str, ids: Sequence[uuid.UUID]) -> dict[uuid.UUID, Vector]:
        """Stored vectors (normalised) of the points that are there."""

    def payloads(self, collection: str, ids: Sequence[uuid.UUID]) -> dict[uuid.UUID, Mapping[str, Any]]:
        """Stored payloads, whole, of the points that are there."""

    def vectors_of_texts(self, collection: str, tenant: str, hashes: Sequence[str]) -> dict[str, Vector]:
        """For each text hash that some point of this tenant carries, that point's vector."""

    def search(self, collection: str, vector: Vector, selection: Selection, limit: int) -> list[Hit]:
        """The `limit` nearest points that meet the selection, nearest first."""

    def scroll(self, collection: str, start: uuid.UUID | None = None) -> Iterator[tuple[uuid.UUID, Stamp]]:
        """Every point's id and stamp, in the order of ids, from `start` on if given, in bounded memory.

        A failure raises: no short end.
        """

    def count(self, collection: str) -> int:
        """Exact number of points."""

    def alias(self, alias: str) -> str | None:
        """The collection an alias names, or None."""

    def point_alias(self, alias: str, collection: str, expected: str | None) -> None:
        """Point an alias at a collection, atomically, if it names `expected` now (None: nothing yet).

        Pointing it where it points already does nothing. Raises Conflict when it names something
        else, with `current` in the details.
        """

    def close(self) -> None:
        """Give back what is held."""


@runtime_checkable
class BulkLoads(Protocol):
    """What an index wants to know of loads that are many times what is usual; implemented where it matters."""

    def begin_bulk(self, collection: str) -> None:
        """Much is coming: put off building what only makes search fast. May be repeated. Raises NotFound."""

    def end_bulk(self, collection: str) -> None:
        """It has come: build what makes search fast, as fits the size. May be repeated, and called late."""


@dataclass(frozen=True, slots=True)
class BlobInfo:
    """What a store says of an object: its key, its size in bytes, and when it was last written."""

    key: str
    size: int
    modified: datetime


class BlobStore(Protocol):
    """Objects under keys such as `a/b/c.zst`: whole, written once, never changed.

    Keys are relative paths of at most 900 bytes, of parts of at most 255 that are not empty, `.`, `..` or
    `.uploads`, without backslashes and control characters; anything else raises Refused, and `list` leaves
    out what a stranger stored under such a key. What is asked of the store is asked of it now: nothing
    answers from a list kept earlier. A writer that dies or fails leaves no object. Raises Unavailable
    (worth another try), Misconfigured (rights, bucket, keys).
    """

    def put(self, key: str, data: bytes) -> None:
        """Store an object and read it back; there already with the same bytes: nothing.

        Raises Conflict when other bytes are there under this key, BadAnswer when what is read back is
        not what was sent.
        """

    def put_many(self, objects: Mapping[str, bytes]) -> dict[str, EngineError]:
        """`put` each, many at once; the error of every object that is not safely there (none: an empty dict)."""

    def get(self, key: str) -> bytes:
        """The bytes of an object. Raises NotFound."""

    def get_many(self, keys: Sequence[str]) -> dict[str, bytes]:
        """The objects that are there among `keys`, many at once."""

    def stat(self, key: str) -> BlobInfo | None:
        """What is there under a key now, or None."""

    def list(self, prefix: str) -> Iterator[BlobInfo]:
        """Every object whose key begins with `prefix` (a folder, ending in `/`, or empty: all), in bounded memory."""

    def delete(self, key: str) -> None:
        """Remove an object; gone already: nothing."""

    def delete_many(self, keys: Sequence[str]) -> None:
        """Remove objects, many at once; those that are gone already count as removed."""

    def close(self) -> None:
        """Give back what is held."""


@dataclass(frozen=True, slots=True)
class Versioned:
    """A value and the version of the record it was made from."""

    version: int
    value: bytes


class Cache(Protocol):
    """Small values that may be lost at any time. No call raises: a cache that fails answers nothing.

    A key is used either with versions or without. Where records are kept, versions keep a slow reader
    from putting an old value back after a newer one, or after a delete.
    """

    def get(self, key: str) -> bytes | None:
        """The value, or None: not there, expired, or the cache is out of reach."""

    def put(self, key: str, value: bytes, keep: timedelta) -> None:
        """Keep a value for a while, if the cache can be reached."""

    def drop(self, key: str) -> None:
        """Forget a value, if the cache can be reached."""

    def get_versioned(self, key: str) -> Versioned | None:
        """A value and its version, or None: not there, expired, dropped, or out of reach."""

    def put_newer(self, key: str, value: Versioned, keep: timedelta) -> None:
        """Keep a value for a while, unless a newer version is there or this one was dropped.

        After a drop it is kept at least until that drop's time has passed.
        """

    def drop_older(self, key: str, version: int, keep: timedelta) -> bool:
        """Forget a value up to this version, and take none back until `keep` has passed. False: out of reach."""

    def close(self) -> None:
        """Give back what is held."""


@runtime_checkable
class KeepsVersions(Protocol):
    """What is asked of a store that may keep what was overwritten or deleted; implemented where it may."""

    def purge(self, keys: Sequence[str]) -> None:
        """Remove objects in every version the store keeps; gone already: nothing.

        Raises Misconfigured when versions may not be listed or removed (a right, or a lock on objects).
        """

    def versions(self, prefix: str) -> Iterator[BlobInfo]:
        """Every kept version of every object below `prefix`, deleted and overwritten ones too, as `list` does."""


class Locks(Protocol):
    """Names held by one owner for a while, so that two workers do not do the same. No call raises.

    They save work, not data: a lock can run out while its owner sleeps, or vanish with its store. What
    must not be done twice checks the fence in the record as well (`core.record.fences`).
    """

    def take(self, name: str, owner: str, keep: timedelta) -> bool | None:
        """True: `owner` has it for `keep` from now, perhaps again. False: another has. None: nobody can say."""

    def renew(self, name: str, owner: str, keep: timedelta) -> bool | None:
        """True: `owner` still has it, for `keep` from now. False: no longer. None: nobody can say."""

    def free(self, name: str, owner: str) -> None:
        """Let others have it, if `owner` still has it."""

    def close(self) -> None:
        """Give back what is held."""
