"""Where the snapshots of one generation stand in the object store: parts first, the manifest that names them last.

A manifest is written once, under the number after the last one's: of two runs that built on the same snapshot the
store lets one through. What is read is compared with its checksum, and what does not agree is as good as gone.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from core.errors import BadAnswer, NotFound
from core.index.snapshots.parquet import Keys, Rows, decoded, decoded_keys, encoded, encoded_keys, loss
from core.model.snapshot import (
    Manifest,
    Part,
    Precision,
    folder_of,
    from_json,
    keys_key,
    manifest_name,
    manifest_number,
    part_key,
    to_json,
)
from core.ports import BlobInfo, BlobStore
from core.record.objects import purge, versions

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Shelf:
    """The snapshots below `folder` (which ends in `/`). `damaged` gathers the names of what could not be used."""

    blobs: BlobStore
    folder: str
    damaged: list[str] = field(default_factory=list)

    def objects(self) -> dict[str, BlobInfo]:
        """Everything in the folder, by file name."""
        return {info.key.removeprefix(self.folder): info for info in self.blobs.list(self.folder)}

    def newest(self, objects: dict[str, BlobInfo] | None = None) -> Manifest | None:
        """The newest manifest that can be read, with those of its parts that are there and of the right size."""
        there = self.objects() if objects is None else objects
        for number in sorted(numbers(there), reverse=True):
            manifest = self.manifest(number)
            if manifest is not None:
                return _with(manifest, [part for part in manifest.parts if self._stands(part, there)])
        return None

    def manifest(self, number: int) -> Manifest | None:
        """The manifest of this number; None: it is gone, or not as it was written."""
        name = manifest_name(number)
        try:
            return from_json(self.blobs.get(self.folder + name))
        except NotFound:
            return None
        except BadAnswer:
            self._damage(name)
            return None

    def put_manifest(self, manifest: Manifest) -> None:
        """Make a snapshot exist. Raises Conflict when another run took the number with another manifest."""
        self.blobs.put(self.folder + manifest_name(manifest.number), to_json(manifest))

    def put_part(self, name: str, bits: int, bucket: int, rows: Rows, precision: Precision) -> Part:
        """Store rows of one bucket as a part that no manifest names yet."""
        data, keys = encoded(rows, precision), encoded_keys(rows.keys)
        failed = self.blobs.put_many({self.folder + part_key(name): data, self.folder + keys_key(name): keys})
        for problem in failed.values():
            raise problem
        return Part(
            name=name,
            bits=bits,
            bucket=bucket,
            rows=len(rows),
            current=len(rows),
            bytes=len(data),
            sha256=hashlib.sha256(data).hexdigest(),
            keys_bytes=len(keys),
            keys_sha256=hashlib.sha256(keys).hexdigest(),
            precision=precision,
            loss=loss(rows.vectors, precision),
        )

    def rows(self, part: Part) -> Rows | None:
        """The rows of a part; None: they are gone or damaged."""
        data = self._sound(part_key(part.name), part.sha256)
        return None if data is None else decoded(data)

    def keys(self, part: Part) -> Keys | None:
        """The keys of a part, from the part itself where its keys are gone or damaged; None: both are."""
        data = self._sound(keys_key(part.name), part.keys_sha256)
        if data is None:
            data = self._sound(part_key(part.name), part.sha256)
        return None if data is None else decoded_keys(data)

    def drop(self, names: Sequence[str]) -> None:
        """Remove objects by their file names, in every version that is kept of them."""
        purge(self.blobs, [self.folder + name for name in names])

    def _sound(self, name: str, sha256: str) -> bytes | None:
        try:
            data = self.blobs.get(self.folder + name)
        except NotFound:
            self._damage(name)
            return None
        if hashlib.sha256(data).hexdigest() != sha256:
            self._damage(name)
            return None
        return data

    def _stands(self, part: Part, there: dict[str, BlobInfo]) -> bool:
        info = there.get(part_key(part.name))
        if info is None or info.size != part.bytes:
            self._damage(part_key(part.name))
            return False
        return True

    def _damage(self, name: str) -> None:
        if name not in self.damaged:
            logger.warning("not used, because it is gone or not as it was written: %s%s", self.folder, name)
            self.damaged.append(name)


def folders(blobs: BlobStore, tenant: str) -> dict[str, dict[str, BlobInfo]]:
    """What is kept of a tenant: by folder (ending in `/`), one a generation and space, its objects by file name."""
    found: dict[str, dict[str, BlobInfo]] = {}
    for info in blobs.list(folder_of(tenant)):
        folder, _, name = info.key.rpartition("/")
        found.setdefault(f"{folder}/", {})[name] = info
    return found


def kept_versions(blobs: BlobStore, tenant: str) -> list[str]:
    """Keys of all objects of a tenant's snapshots of which any version is kept, also of a deleted one."""
    return sorted({info.key for info in versions(blobs, folder_of(tenant))})


def numbers(objects: dict[str, BlobInfo]) -> list[int]:
    """Numbers of the manifests among the file names of a folder."""
    found = [manifest_number(name) for name in objects]
    return [number for number in found if number is not None]


def _with(manifest: Manifest, parts: Sequence[Part]) -> Manifest:
    return manifest if len(parts) == len(manifest.parts) else replace(manifest, parts=tuple(parts))
