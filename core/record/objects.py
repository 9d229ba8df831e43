"""Objects that go for good, in every version a store may keep, and what a store still holds of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from core.ports import BlobInfo, BlobStore, KeepsVersions


def purge(blobs: BlobStore, keys: Sequence[str]) -> None:
    """Remove objects for good: in every version, where the store keeps versions."""
    if keys and isinstance(blobs, KeepsVersions):
        blobs.purge(keys)
    elif keys:
        blobs.delete_many(keys)


def versions(blobs: BlobStore, prefix: str) -> Iterator[BlobInfo]:
    """All that a store still holds below a prefix: every version, where it keeps versions."""
    return blobs.versions(prefix) if isinstance(blobs, KeepsVersions) else blobs.list(prefix)
