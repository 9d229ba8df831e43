"""What keeps the derived stores rebuildable: snapshots, recovery, the ledger of deletions, the index's health."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from core.batch.recover import RecoverWork
from core.batch.snapshot import SnapshotWork
from core.engine.stores import Stores
from core.index.health import IndexHealth, index_health, points_in
from core.index.snapshots.forgetting import Forgetter
from core.index.snapshots.known import SnapshotVectors
from core.model.snapshot import SnapshotRules
from core.record.kept import end_recoveries
from core.record.ledger import Ledger
from core.record.swaps import Swaps
from core.settings import Settings
from core.write.gate import admit_tenant


class Safekeeping:
    """Snapshots of an engine's indexes, and the way back from them. Thread-safe."""

    def __init__(self, settings: Settings, stores: Stores, kept_vectors: SnapshotVectors) -> None:
        self._settings = settings
        self._stores = stores
        self._kept_vectors = kept_vectors

    def snapshot_work(self) -> SnapshotWork:
        """What the snapshot chore works with."""
        settings, stores = self._settings, self._stores
        return SnapshotWork(
            database=stores.database,
            index=stores.index,
            blobs=stores.blobs,
            locks=stores.locks,
            rules=SnapshotRules(
                precision=settings.snapshot_precision,
                part_bytes=settings.snapshot_part_bytes,
                portion=settings.snapshot_portion,
                compact_parts=settings.snapshot_compact_parts,
                compact_after=settings.snapshot_compact_after,
                keep=settings.snapshot_keep,
                grace=settings.snapshot_grace,
            ),
            new_id=uuid.uuid4,
            keep=settings.lease,
        )

    def recover_work(self) -> RecoverWork:
        """What the recover chore works with."""
        stores, keep = self._stores, self._settings.lease
        return RecoverWork(
            database=stores.database,
            index=stores.index,
            blobs=stores.blobs,
            locks=stores.locks,
            new_id=uuid.uuid4,
            keep=keep,
            known=[self._kept_vectors],
            loads=stores.loads,
            swapping=lambda tenant: Swaps(stores.database, keep).open(tenant) is not None,
        )

    def forgetter(self) -> Forgetter:
        """What takes erased memories out of snapshots."""
        stores, keep = self._stores, self._settings.lease
        return Forgetter(database=stores.database, blobs=stores.blobs, locks=stores.locks, new_id=uuid.uuid4, keep=keep)

    def ledger(self) -> Ledger:
        """The ledger of deletions on the object store."""
        return Ledger(self._stores.database, self._stores.blobs)

    def end_recoveries(self) -> int:
        """Take note of recoveries of which nothing waits any more; how many those were."""
        return end_recoveries(self._stores.database)

    def index_health(self, tenants: Sequence[str] | None = None, limit: int = 100) -> Sequence[IndexHealth]:
        """Of up to `limit` tenants: whether the index holds what it should, or is mostly gone."""
        names = None if tenants is None else [admit_tenant(one) for one in tenants]
        return index_health(self._stores.database, self._stores.index, names, limit)

    def points_in(self, collections: Sequence[str]) -> dict[str, int | None]:
        """How many points collections hold now; None: the index is out of reach, and nobody can say."""
        return {one: points_in(self._stores.index, one) for one in collections}
