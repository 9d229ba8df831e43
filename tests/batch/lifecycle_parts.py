"""An engine's parts for archive, restore and reap, on a real database, index and object folder."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
from psycopg.rows import dict_row

from core.adapters.fsspec_blobs import open_folder
from core.adapters.no_cache import NoCache
from core.adapters.no_locks import NoLocks
from core.batch import archive, erase, reap
from core.batch.archive import ArchiveWork
from core.batch.erase import EraseWork
from core.batch.reap import ReapWork, Spans
from core.index.erasing import IndexPlace, SnapshotsPlace
from core.index.indexer import Indexer
from core.index.snapshots.forgetting import Forgetter
from core.model.erasure import Request
from core.model.memory import Memory
from core.model.policy import Policies, Policy
from core.ports import BlobStore, Cache, KeyProvider
from core.read.access import AccessLog
from core.read.reader import Reader
from core.read.rehydrate import Rehydrate
from core.record.contents import Contents
from core.record.erasing import CachePlace, GraphPlace, ObjectsPlace
from core.record.ledger import Ledger
from core.record.vault import Chance, Vault
from core.write.restore import Restored, Restorer
from core.write.writer import Writer
from tests.batch.conftest import Parts, assemble

RESTS = Policies(default=Policy(cold_after=timedelta(days=30), archive_after=timedelta(days=60)))


@dataclass
class Lifecycle:
    """The parts, and what tests ask of them. `age` makes memories look as if they had rested for days."""

    url: str
    parts: Parts
    blobs: BlobStore
    cache: Cache
    contents: Contents
    reader: Reader
    restorer: Restorer
    archive_work: ArchiveWork
    reap_work: ReapWork
    erase_work: EraseWork
    forgetter: Forgetter

    @property
    def writer(self) -> Writer:
        return self.parts.writer

    def age(self, days: float = 100, ids: Sequence[str] | None = None) -> None:
        self.sql(
            "UPDATE memory SET updated_at = now() - %s, accessed_at = accessed_at - %s"
            " WHERE %s::text[] IS NULL OR id = ANY (%s)",
            timedelta(days=days),
            timedelta(days=days),
            ids and list(ids),
            ids and list(ids),
        )

    def sql(self, statement: str, *values: object) -> list[dict[str, Any]]:
        with psycopg.connect(self.url, autocommit=True, row_factory=dict_row) as session:
            cursor = session.execute(statement.encode(), values)
            return cursor.fetchall() if cursor.description else []

    def archive(self, tenant: str = "t") -> archive.Report:
        summed, portion = archive.Report(tenant=tenant), archive.Portion(tenant=tenant)
        for _ in range(1000):
            report = archive.step(self.archive_work, portion)
            summed = summed.plus(report)
            if report.next is None:
                return summed
            portion = report.next
        raise AssertionError("no end")

    def reap(self, tenant: str = "t") -> reap.Report:
        summed, portion = reap.Report(tenant=tenant), reap.Portion(tenant=tenant)
        for _ in range(1000):
            report = reap.step(self.reap_work, portion)
            summed = summed.plus(report)
            if report.next is None:
                return summed
            portion = report.next
        raise AssertionError("no end")

    def erase(self, tenant: str = "t", **asked: str) -> erase.Report:
        (kind, value) = next(iter(asked.items())) if asked else ("all", "")
        summed = erase.Report(tenant=tenant)
        portion = erase.plan(self.erase_work, Request(tenant=tenant, kind=kind, value=value))  # type: ignore[arg-type]
        for _ in range(1000):
            report = erase.step(self.erase_work, portion)
            summed = summed.plus(report)
            if report.next is None:
                return summed
            portion = report.next
        raise AssertionError("no end")

    def restore(self, *ids: str, tenant: str = "t") -> list[Restored]:
        return self.restorer.restore(tenant, ids)

    def row(self, memory_id: str, tenant: str = "t") -> dict[str, Any]:
        (row,) = self.sql("SELECT * FROM memory WHERE tenant = %s AND id = %s", tenant, memory_id)
        return row

    def get(self, memory_id: str, tenant: str = "t") -> Memory:
        return self.reader.get(tenant, memory_id)

    def arrived(self, days: float = 1) -> None:
        """From here on no announced put is waited for any more, and none was since some days ago."""
        self.sql("UPDATE archive_object SET live_until = now() - %s", timedelta(days=days))

    def objects(self, prefix: str = "") -> list[str]:
        """Keys of archived memories."""
        listed = (info.key for info in self.blobs.list(prefix))
        return sorted(key for key in listed if key.endswith(".json.zst"))

    def later(self, **spans: timedelta) -> None:
        """From here on things are kept for these spans only."""
        self.reap_work = replace(self.reap_work, spans=replace(self.reap_work.spans, **spans))

    def close(self) -> None:
        self.blobs.close()
        self.parts.index.close()
        self.parts.database.close()


def lifecycle_of(
    url: str,
    root: Path,
    *,
    blobs: BlobStore | None = None,
    cache: Cache | None = None,
    keys: KeyProvider | None = None,
    policies: Policies = RESTS,
) -> Lifecycle:
    parts = assemble(url, root / "vectors", timedelta(seconds=60))
    store = blobs or open_folder(root / "objects")
    kept = cache or NoCache()
    vault = Vault(parts.database, keys, Chance(lambda: uuid.uuid4().hex, os.urandom, time.monotonic))
    contents = Contents(vault, store, kept)
    parts.writer = Writer(parts.database, parts.embedder.space, parts.writer._new_id, contents)
    indexer = Indexer(parts.database, parts.outbox, parts.index, lambda space: parts.embedder, opened=contents.whole)
    parts.work = replace(parts.work, indexer=indexer)
    rehydrate = Rehydrate(contents, AccessLog(parts.database, time.monotonic))
    reader = Reader(
        parts.database, parts.index, kept, lambda space: parts.embedder, time.monotonic, rehydrate=rehydrate
    )
    shared: dict[str, Any] = {"database": parts.database, "blobs": store, "locks": NoLocks(), "policies": policies}
    forgetter = Forgetter(
        database=parts.database, blobs=store, locks=NoLocks(), new_id=uuid.uuid4, keep=timedelta(seconds=60)
    )
    return Lifecycle(
        url=url,
        parts=parts,
        blobs=store,
        cache=kept,
        contents=contents,
        reader=reader,
        restorer=Restorer(parts.database, contents),
        archive_work=ArchiveWork(**shared, contents=contents, new_id=uuid.uuid4, batch=20),
        reap_work=ReapWork(
            **shared,
            index=parts.index,
            cache=kept,
            spans=Spans(purge_after=timedelta(0)),
            new_id=uuid.uuid4,
            now=lambda: datetime.now(UTC),
            batch=20,
        ),
        forgetter=forgetter,
        erase_work=EraseWork(
            database=parts.database,
            vault=vault,
            places=(
                IndexPlace(parts.database, parts.index),
                SnapshotsPlace(forgetter),
                ObjectsPlace(parts.database, store),
                CachePlace(kept),
                GraphPlace(parts.database),
            ),
            ledger=Ledger(parts.database, store),
            locks=NoLocks(),
            new_id=uuid.uuid4,
            key=None,
            tombstones=timedelta(days=400),
            backups=timedelta(days=35),
            batch=20,
        ),
    )
