"""How memories age: policies, archive, restore, reap, erasure, and the keys of what is sensitive."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta

from core.batch.archive import ArchiveWork
from core.batch.erase import EraseWork
from core.batch.reap import ReapWork, Spans
from core.batch.rotate import RotateWork
from core.engine.safekeeping import Safekeeping
from core.engine.stores import Stores
from core.index.erasing import IndexPlace, SnapshotsPlace
from core.model.policy import POLICY_FIELDS, Policies, Policy, Rule
from core.read.forecast import Forecast, forecast
from core.record import lifecycle
from core.record.contents import Contents
from core.record.erasing import CachePlace, GraphPlace, ObjectsPlace
from core.settings import Settings
from core.write.gate import admit_id, admit_tenant
from core.write.restore import Restored, Restorer
from core.write.writer import Writer


class Lifecycle:
    """The ages of an engine's memories. Thread-safe."""

    def __init__(
        self, settings: Settings, stores: Stores, contents: Contents, writer: Writer, safekeeping: Safekeeping
    ) -> None:
        self._settings = settings
        self._stores = stores
        self._contents = contents
        self._writer = writer
        self._safekeeping = safekeeping
        self._restorer = Restorer(stores.database, contents)
        self._policies = policies_of(settings)

    def restore(self, tenant: str, memory_ids: Sequence[str]) -> Sequence[Restored]:
        """Make archived memories warm again. See `Restorer.restore`."""
        return self._restorer.restore(tenant, memory_ids)

    def restore_all(
        self, tenant: str, session: str | None = None, kind: str | None = None
    ) -> Iterator[Sequence[Restored]]:
        """Make all archived memories of a tenant, or of its session or type, warm again, piece by piece."""
        return self._restorer.restore_all(tenant, {"session": session, "type": kind})

    def keep(self, tenant: str, memory_ids: Sequence[str], *, keep: bool = True) -> Sequence[str]:
        """Mark memories so that nothing moves or reaps them, or no longer; the ids of those that are there."""
        ids = [admit_id(one) for one in memory_ids]
        with self._stores.database.tenant(admit_tenant(tenant)) as session:
            return lifecycle.keep(session, tenant, ids, keep=keep)

    def tenants(self, chosen: Sequence[str] | None = None) -> Sequence[str]:
        """Every tenant there is, or those of the chosen ones that are."""
        return lifecycle.tenants(
            self._stores.database, None if chosen is None else [admit_tenant(one) for one in chosen]
        )

    def policy(self, tenant: str) -> dict[str | None, Policy]:
        """The policies of a tenant by type; under None the one for all other types."""
        return self._policies.all_of(admit_tenant(tenant))

    def forecast(self, tenant: str) -> Forecast:
        """What a run of archive and reap would do to a tenant now; nothing is changed."""
        return forecast(self._stores.database, admit_tenant(tenant), self._policies)

    def archive_work(self) -> ArchiveWork:
        """What the archive chore works with."""
        return ArchiveWork(
            database=self._stores.database,
            contents=self._contents,
            blobs=self._stores.blobs,
            locks=self._stores.locks,
            policies=self._policies,
            new_id=uuid.uuid4,
            batch=self._settings.archive_batch,
            large=self._settings.content_in_row,
        )

    def reap_work(self) -> ReapWork:
        """What the reap chore works with."""
        return ReapWork(
            database=self._stores.database,
            index=self._stores.index,
            blobs=self._stores.blobs,
            cache=self._stores.cache,
            locks=self._stores.locks,
            policies=self._policies,
            spans=Spans(
                purge_after=self._settings.purge_after,
                tombstones=self._settings.tombstones_kept,
                versions=self._settings.versions_kept,
                events=self._settings.events_kept,
                # A restored backup may point at an object that nothing points at any more.
                objects=max(self._settings.objects_grace, self._settings.backups_kept),
            ),
            new_id=uuid.uuid4,
            now=lambda: datetime.now(UTC),
            batch=self._settings.reap_batch,
        )

    def erase_work(self) -> EraseWork:
        """What the erase chore works with."""
        stores = self._stores
        return EraseWork(
            database=self._stores.database,
            vault=self._contents.vault,
            places=(
                IndexPlace(stores.database, stores.index),
                SnapshotsPlace(self._safekeeping.forgetter()),
                ObjectsPlace(stores.database, stores.blobs),
                CachePlace(stores.cache),
                GraphPlace(stores.database),
            ),
            ledger=self._safekeeping.ledger(),
            locks=stores.locks,
            new_id=uuid.uuid4,
            key=stores.receipt_key,
            tombstones=self._settings.tombstones_kept,
            backups=self._settings.backups_kept,
        )

    def rotate_work(self) -> RotateWork:
        """What the rotate chore works with."""
        return RotateWork(
            database=self._stores.database, vault=self._contents.vault, locks=self._stores.locks, new_id=uuid.uuid4
        )

    def delete_older(self, tenant: str, age: timedelta, *, session: str | None = None, kind: str | None = None) -> int:
        """Delete what was created longer ago than `age`. See `Writer.delete_older`."""
        return self._writer.delete_older(tenant, age, session=session, kind=kind)


def policies_of(settings: Settings) -> Policies:
    """The policies the settings name; of a rule only what it sets counts."""
    return Policies(
        [
            Rule(
                tenant=rule.tenant,
                type=rule.type,
                changes=tuple((name, getattr(rule, name)) for name in POLICY_FIELDS if name in rule.model_fields_set),
            )
            for rule in settings.policies
        ]
    )
