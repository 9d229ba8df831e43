"""Old snapshots go, and what no snapshot names goes after a grace time, which spares what a run is about to name."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from core.index.snapshots.shelf import Shelf, folders, numbers
from core.model.snapshot import Manifest, SnapshotRules, keys_key, manifest_name, part_key
from core.ports import BlobInfo, BlobStore


@dataclass(frozen=True, slots=True)
class Swept:
    """How many snapshots expired, and how many other objects were removed."""

    manifests: int
    objects: int


def sweep(blobs: BlobStore, tenant: str, live: Collection[str], rules: SnapshotRules, now: datetime) -> Swept:
    """Let a tenant's old snapshots go. `live` are the folders of live generations, `now` the database's time.

    A snapshot goes once the one after it is `keep` old; the last one of a live generation never does, the last one
    of another when it is that old itself.
    """
    manifests = objects = 0
    for folder, there in folders(blobs, tenant).items():
        shelf = Shelf(blobs, folder)
        stay, expired = _sorted(shelf, there, rules, now, is_live=folder in live)
        # Manifests first: parts without one are nothing, and swept by the next run if this one dies here.
        shelf.drop([manifest_name(number) for number in expired])
        unnamed = there.keys() - _named(stay) - {manifest_name(number) for number in expired}
        old = [name for name in unnamed if now - there[name].modified >= rules.grace]
        shelf.drop(old)
        manifests, objects = manifests + len(expired), objects + len(old)
    return Swept(manifests, objects)


def _sorted(
    shelf: Shelf, there: dict[str, BlobInfo], rules: SnapshotRules, now: datetime, *, is_live: bool
) -> tuple[list[Manifest], list[int]]:
    """The manifests that stay, and the numbers of those that expired; damaged ones are neither."""
    age = max(rules.keep, rules.grace)
    stay: list[Manifest] = []
    expired: list[int] = []
    following: Manifest | None = None
    for number in sorted(numbers(there), reverse=True):
        manifest = shelf.manifest(number)
        if manifest is None:
            continue
        overruled = manifest if following is None and not is_live else following
        if overruled is not None and now - overruled.taken_at >= age:
            expired.append(number)
        else:
            stay.append(manifest)
        following = manifest
    return stay, expired


def _named(manifests: list[Manifest]) -> set[str]:
    parts = {part.name for manifest in manifests for part in manifest.parts}
    names = {manifest_name(manifest.number) for manifest in manifests}
    return names | {part_key(name) for name in parts} | {keys_key(name) for name in parts}
