"""Vectors of erased memories leave every snapshot at once: parts that hold them are written anew or removed."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from core.errors import BadAnswer, NotFound
from core.index.snapshots.parquet import decoded_keys
from core.index.snapshots.shelf import Shelf, folders, kept_versions, numbers
from core.model.generation import Generation, GenerationState
from core.model.memory import embedding_id
from core.model.snapshot import Manifest, Part, bucket_of, folder_name, keys_key, manifest_name, part_key
from core.ports import BlobInfo, BlobStore, Locks
from core.record.database import Database
from core.record.fences import Fenced, LockName, fenced
from core.record.kept import Keys, generations_kept, keys
from core.record.objects import purge

WORK = "snapshot"


@dataclass(frozen=True, slots=True)
class Forgotten:
    """How many rows were found and are gone, and how many objects that took; nothing found: 0 and 0."""

    rows: int
    objects: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgetter:
    """Removes memories from a tenant's snapshots. `keep` is how long the lock lasts without being renewed."""

    database: Database
    blobs: BlobStore
    locks: Locks
    new_id: Callable[[], uuid.UUID]
    keep: timedelta

    def forget(self, tenant: str, ids: Sequence[str]) -> Forgotten:
        """Remove these memories' rows from every snapshot of a tenant, of every generation, named or not.

        When it returns, no object holds them. A run of the snapshot chore that had lost its lock may still put a
        part that nothing names: call it again after a lease, which also confirms that nothing is found. Killed
        anywhere, calling it again finishes. Raises Busy while a snapshot of the tenant is being taken, Conflict
        when one was finished in between: try again.
        """
        points = {embedding_id(tenant, one).bytes for one in ids}
        with fenced(
            self.database, self.locks, LockName(tenant=tenant, work=WORK), self.new_id().hex, self.keep
        ) as held:
            there = folders(self.blobs, tenant)
            # What was deleted before, and may hold them, is kept in no version.
            current = {folder + name for folder, names in there.items() for name in names}
            purge(self.blobs, [key for key in kept_versions(self.blobs, tenant) if key not in current])
            live = [one for one in generations_kept(self.database, tenant) if one.state is GenerationState.LIVE]
            with self.database.tenant(tenant) as session:
                now = keys(session)
            for generation in live:
                there.setdefault(folder_name(generation), {})
            found = [
                self._forget(Shelf(self.blobs, folder), there[folder], points, live, now, held) for folder in there
            ]
        return Forgotten(sum(one.rows for one in found), sum(one.objects for one in found))

    def rows(self, tenant: str, ids: Sequence[str]) -> int:
        """How many rows of these memories all snapshots of a tenant hold; a part that cannot be read counts as one."""
        points = {embedding_id(tenant, one).bytes for one in ids}
        found = 0
        for folder, there in folders(self.blobs, tenant).items():
            shelf = Shelf(self.blobs, folder)
            newest = shelf.newest(there)
            named = {} if newest is None else {part.name: part for part in newest.parts}
            found += sum(abs(_count(shelf, name, named.get(name), points)) for name in _part_names(there))
        return found

    def forget_all(self, tenant: str) -> int:
        """Remove every object of every snapshot of a tenant; how many. Raises Busy while one is being taken."""
        with fenced(self.database, self.locks, LockName(tenant=tenant, work=WORK), self.new_id().hex, self.keep):
            doomed = kept_versions(self.blobs, tenant)
            purge(self.blobs, doomed)
            return len(doomed)

    def objects(self, tenant: str) -> int:
        """How many objects all snapshots of a tenant are made of, with those of which only old versions are kept."""
        return len(kept_versions(self.blobs, tenant))

    def _forget(
        self,
        shelf: Shelf,
        there: dict[str, BlobInfo],
        points: set[bytes],
        live: Iterable[Generation],
        now: Keys,
        held: Fenced,
    ) -> Forgotten:
        newest = shelf.newest(there)
        named = {} if newest is None else {part.name: part for part in newest.parts}
        holding: dict[str, int] = {}
        for name in sorted(_part_names(there)):
            held.renew()
            count = _count(shelf, name, named.get(name), points)
            if count:
                holding[name] = count
        # Also with nothing found: a run that had lost its lock must not finish what it built on the last one.
        following = max(numbers(there), default=0) + 1
        base = newest if newest is not None else _empty(shelf.folder, live, now)
        if base is not None:
            parts = self._without(shelf, base.parts, holding, points)
            shelf.put_manifest(replace(base, number=following, taken_at=now.moment, parts=tuple(parts)))
        doomed = [manifest_name(number) for number in numbers(there) if _names(shelf, number, holding)]
        doomed += [key for name in holding for key in (part_key(name), keys_key(name))]
        shelf.drop(doomed)
        return Forgotten(sum(count for count in holding.values() if count > 0), len(doomed))

    def _without(
        self, shelf: Shelf, parts: Iterable[Part], holding: dict[str, int], points: set[bytes]
    ) -> Iterable[Part]:
        for part in parts:
            if part.name not in holding:
                yield part
                continue
            rows = shelf.rows(part)
            if rows is None:
                continue
            left = rows.chosen([place for place, point in enumerate(rows.keys.points) if point not in points])
            if len(left):
                fresh = shelf.put_part(self.new_id().hex, part.bits, part.bucket, left, part.precision)
                current = max(0, part.current - (len(rows) - len(left)))
                yield replace(fresh, current=current, loss=part.loss, stale_since=part.stale_since)


def _part_names(there: dict[str, BlobInfo]) -> set[str]:
    return {name.partition(".")[0] for name in there if name.endswith(".parquet")}


def _count(shelf: Shelf, name: str, part: Part | None, points: set[bytes]) -> int:
    """How many of the points a part holds; -1 where nobody can tell, so that it goes too."""
    if part is not None:
        here = {point for point in points if bucket_of(point, part.bits) == part.bucket}
        if not here:
            return 0
        found = shelf.keys(part)
        return -1 if found is None else len(here.intersection(found.points))
    for key in (keys_key(name), part_key(name)):
        try:
            return len(points.intersection(decoded_keys(shelf.blobs.get(shelf.folder + key)).points))
        except (NotFound, BadAnswer):
            continue
    return -1


def _names(shelf: Shelf, number: int, holding: dict[str, int]) -> bool:
    """Whether an older manifest names one of these parts; one that cannot be read goes too."""
    if not holding:
        return False
    manifest = shelf.manifest(number)
    return manifest is None or any(part.name in holding for part in manifest.parts)


def _empty(folder: str, live: Iterable[Generation], now: Keys) -> Manifest | None:
    """A snapshot of nothing, of the live generation whose folder this is."""
    for generation in live:
        if folder_name(generation) == folder:
            return Manifest(
                tenant=generation.tenant,
                generation=generation.number,
                number=0,
                fingerprint=generation.space.fingerprint,
                space=generation.space.as_dict(),
                hash_check=now.hash_check,
                epoch=now.epoch,
                taken_at=now.moment,
                bits=0,
                cursor=None,
                parts=(),
            )
    return None
