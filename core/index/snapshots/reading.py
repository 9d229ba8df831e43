"""Finding in snapshots what belongs to a generation: its newest one that can be used, and rows by point id."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from core.index.snapshots.parquet import Rows
from core.index.snapshots.shelf import Shelf, folders, numbers
from core.model.generation import Generation
from core.model.point import Vector
from core.model.snapshot import Manifest, Part, bucket_of, folder_name
from core.ports import BlobStore

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class KeptRow:
    """One row: which version of the memory it is of and since when, the hash of its text, and the vector."""

    version: int
    moment: int
    text_hash: str
    vector: Vector


class KeptRows:
    """Rows of one snapshot, asked for in the order of point ids. Holds one bucket at a time."""

    def __init__(self, shelf: Shelf, manifest: Manifest) -> None:
        self.shelf = shelf
        self.manifest = manifest
        self._bucket: int | None = None
        self._rows: dict[bytes, KeptRow] = {}

    def of(self, points: Iterable[uuid.UUID]) -> dict[uuid.UUID, KeptRow]:
        """The newest rows of those points that have one."""
        found = {}
        for point in points:
            row = self._row(point.bytes)
            if row is not None:
                found[point] = row
        return found

    def _row(self, point: bytes) -> KeptRow | None:
        bucket = bucket_of(point, self.manifest.bits)
        if bucket != self._bucket:
            self._load(bucket)
        return self._rows.get(point)

    def _load(self, bucket: int) -> None:
        self._bucket, self._rows = bucket, {}
        bits = self.manifest.bits
        for part in self.manifest.parts:
            if part.bits > bits or bucket >> (bits - part.bits) != part.bucket:
                continue
            rows = self.shelf.rows(part)
            if rows is not None:
                self._rows.update(_rows(rows))  # later parts overrule earlier ones


def _rows(rows: Rows) -> Iterator[tuple[bytes, KeptRow]]:
    """The sound rows of a part by their points; Python's numbers made of whole columns at once."""
    keys, vectors = rows.keys, list(rows.vectors)
    versions, moments = keys.versions.tolist(), rows.moments.tolist()
    for at in sound(rows.vectors):
        yield keys.points[at], KeptRow(versions[at], moments[at], keys.hashes[at].hex(), vectors[at])


def newest_of(blobs: BlobStore, generation: Generation, hash_check: str) -> KeptRows | None:
    """The newest snapshot of a generation, or else of another one of the tenant in the same space."""
    usable = []
    own = folder_name(generation)
    for folder, there in folders(blobs, generation.tenant).items():
        shelf = Shelf(blobs, folder)
        manifest = shelf.newest(there)
        if manifest is not None and fits(manifest, generation, hash_check):
            usable.append((folder == own, manifest.taken_at, shelf, manifest))
    if not usable:
        return None
    _, _, shelf, manifest = max(usable, key=lambda one: one[:2])
    return KeptRows(shelf, manifest)


def parts_of(blobs: BlobStore, generation: Generation, hash_check: str) -> list[tuple[Shelf, Part]]:
    """Every part any snapshot of the tenant in the generation's space names, each once, newest snapshots first."""
    found: dict[str, tuple[Shelf, Part]] = {}
    for folder, there in folders(blobs, generation.tenant).items():
        shelf = Shelf(blobs, folder)
        for number in sorted(numbers(there), reverse=True):
            manifest = shelf.manifest(number)
            if manifest is not None and fits(manifest, generation, hash_check):
                for part in manifest.parts:
                    found.setdefault(part.name, (shelf, part))
    return list(found.values())


def fits(manifest: Manifest, generation: Generation, hash_check: str) -> bool:
    """Whether its vectors are in the generation's space, and its hashes made with this record's key."""
    return (
        manifest.tenant == generation.tenant
        and manifest.fingerprint == generation.space.fingerprint
        and manifest.hash_check == hash_check
    )


def sound(vectors: Vector) -> Sequence[int]:
    """Places of the rows an index may be given: finite and not zero."""
    usable = np.isfinite(vectors).all(axis=1) & np.any(vectors != 0, axis=1)
    return [int(place) for place in np.flatnonzero(usable)]
