"""An engine's parts with an object store and locks: what the tests of snapshots and recovery work with."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg

from core.adapters.fsspec_blobs import open_folder
from core.batch import recover, snapshot
from core.batch.recover import RecoverWork
from core.batch.snapshot import SnapshotWork
from core.index.indexer import Indexer
from core.index.snapshots.forgetting import Forgetter
from core.index.snapshots.known import SnapshotVectors
from core.index.snapshots.shelf import Shelf, folders
from core.model.generation import Generation
from core.model.memory import Draft
from core.model.snapshot import Manifest, SnapshotRules, folder_name
from core.ports import BlobStore, VectorIndex
from core.record.kept import end_recoveries, generations_kept
from tests.batch.conftest import Parts, assemble
from tests.contract.fake_locks import FakeLocks

SMALL = SnapshotRules(part_bytes=20 * (32 * 4 + 100), portion=10_000)  # 20 rows a part


@dataclass
class Keeping:
    """Parts, and the chores over them. Snapshots are below `root/objects`."""

    parts: Parts
    url: str
    root: Path
    blobs: BlobStore
    taking: SnapshotWork
    recovering: RecoverWork
    known: SnapshotVectors
    clock: list[float] = field(default_factory=lambda: [0.0])

    def write(self, count: int, tenant: str = "t", text: str = "a note about", first: int = 0) -> None:
        drafts = [Draft(id=f"m{n}", content=f"{text} {n}") for n in range(first, first + count)]
        assert len(list(self.parts.writer.write_many(tenant, drafts))) == count
        self.parts.drain(tenant)

    def snapshot(self, tenant: str = "t", **rules: Any) -> snapshot.Report:
        work = replace(self.taking, rules=replace(self.taking.rules, **rules))
        reports = [snapshot.step(work, tenant)]
        while not reports[-1].done and len(reports) < 100:
            reports.append(snapshot.step(work, tenant))
        return snapshot.total(tenant, reports)

    def recover(self, tenant: str = "t", *, dry: bool = False, **changes: Any) -> recover.Report:
        work = replace(self.recovering, **changes)
        reports = [recover.step(work, tenant, dry=dry)]
        while (cursor := reports[-1].cursor) is not None and len(reports) < 100:
            reports.append(recover.step(work, tenant, cursor, dry=dry))
        return recover.total(tenant, reports)

    def drain(self, tenant: str = "t") -> Any:
        """The ordinary drain, until nothing waits; then recoveries that are over end."""
        report = self.parts.drain(tenant)
        end_recoveries(self.parts.database)
        return report

    def generation(self, tenant: str = "t") -> Generation:
        return generations_kept(self.parts.database, tenant)[-1]

    def shelf(self, tenant: str = "t") -> Shelf:
        return Shelf(self.blobs, folder_name(self.generation(tenant)))

    def manifest(self, tenant: str = "t") -> Manifest:
        found = self.shelf(tenant).newest()
        assert found is not None
        return found

    def files(self, tenant: str = "t") -> list[Path]:
        """Every file of the tenant's snapshots."""
        names = [folder + name for folder, there in folders(self.blobs, tenant).items() for name in there]
        return sorted(self.root / "objects" / name for name in names)

    def ids_kept(self, tenant: str = "t") -> set[str]:
        """Memories any object of the tenant's snapshots holds a vector of, named by a manifest or not."""
        from core.index.snapshots.parquet import decoded

        parts = [path for path in self.files(tenant) if path.suffix == ".parquet" and ".keys" not in path.name]
        return {one for path in parts for one in decoded(path.read_bytes()).ids}

    def forgetter(self) -> Forgetter:
        work = self.taking
        return Forgetter(
            database=work.database, blobs=work.blobs, locks=work.locks, new_id=uuid.uuid4, keep=timedelta(minutes=1)
        )

    def lose_collection(self, tenant: str = "t") -> None:
        """As if its folder had been deleted under the engine, with the alias left behind."""
        import shutil

        self.parts.index._shards.let_go(self.generation(tenant).collection)
        shutil.rmtree(self.root / "vectors" / self.generation(tenant).collection)

    def lose_alias(self, tenant: str = "t") -> None:
        (self.root / "vectors" / f"{self.generation(tenant).alias}.alias").unlink()

    def sql(self, statement: str, values: Sequence[Any] = ()) -> list[Any]:
        with psycopg.connect(self.url) as session:
            cursor = session.execute(statement.encode(), values)
            return cursor.fetchall() if cursor.description else []

    def database_time(self) -> datetime:
        return self.sql("SELECT now()")[0][0]  # type: ignore[no-any-return]

    def close(self) -> None:
        self.known.close()
        self.parts.index.close()
        self.parts.database.close()
        self.blobs.close()


def keep(url: str, root: Path, rules: SnapshotRules = SMALL, index: VectorIndex | None = None) -> Keeping:
    """Parts with everything snapshots need, on this database and below this folder."""
    parts = assemble(url, root / "vectors", timedelta(seconds=60), index)
    blobs = open_folder(root / "objects")
    locks, minute = FakeLocks(), timedelta(minutes=1)
    clock = [0.0]
    known = SnapshotVectors(parts.database, blobs, lambda: clock[0])
    indexer = Indexer(parts.database, parts.outbox, parts.index, lambda space: parts.embedder, [known])
    parts.work = replace(parts.work, indexer=indexer)
    taking = SnapshotWork(
        database=parts.database,
        index=parts.index,
        blobs=blobs,
        locks=locks,
        rules=rules,
        new_id=uuid.uuid4,
        keep=minute,
    )
    recovering = RecoverWork(
        database=parts.database,
        index=parts.index,
        blobs=blobs,
        locks=locks,
        new_id=uuid.uuid4,
        keep=minute,
        known=[known],
    )
    return Keeping(parts, url, root, blobs, taking, recovering, known, clock)
