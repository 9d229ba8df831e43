"""The archive against the record: stubs without their object, objects that are not what was put, objects of nobody.

Nothing is written: an object that is gone or damaged is in no other store of this engine, and one that nobody points
at is the reap chore's, which marks it, waits for its grace time and looks again before it removes it.
"""

from __future__ import annotations

import hashlib
import random
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from core.model.drift import SAMPLES, Depth, DriftRules, Found, Kind, StoreReport, Verdict
from core.model.names import index_group, parse_archive_key
from core.ports import BlobStore
from core.record import stubs
from core.record.database import Database
from core.record.stubs import Stub

ARCHIVE = "archive"
PAGE = 500
NOWHERE = "restore it from a backup of the object store, or delete the memory"
TO_REAP = "the reap chore removes it after its grace time"


@dataclass(frozen=True, slots=True)
class ArchivedObjects:
    """Looks at the objects of a tenant: of a sample of its stubs, or of all, and then for objects of nobody."""

    database: Database
    blobs: BlobStore
    rules: DriftRules
    chance: random.Random

    def look(self, tenant: str, depth: Depth, *, dry: bool) -> StoreReport:
        """Compare every byte's checksum, of a sample or (a full look) of all. Raises Transient."""
        gone: list[str] = []
        damaged: list[str] = []
        seen = 0
        for page in self._pages(tenant, depth):
            seen += len(page)
            there = self.blobs.get_many([one.key for one in page])
            wrong = [one for one in page if hashlib.sha256(there.get(one.key, b"")).hexdigest() != one.sha256]
            if wrong:
                with self.database.tenant(tenant) as session:
                    still = stubs.still(session, tenant, wrong)
                gone += [one.id for one in wrong if one.id in still and one.key not in there]
                damaged += [one.id for one in wrong if one.id in still and one.key in there]
        strangers = list(self._strangers(tenant)) if depth is Depth.FULL else []
        kinds = ((Kind.OBJECT_GONE, gone, NOWHERE), (Kind.OBJECT_DAMAGED, damaged, NOWHERE))
        findings = [_found(*one) for one in (*kinds, (Kind.OBJECT_OF_NOBODY, strangers, TO_REAP)) if one[1]]
        return StoreReport(
            tenant=tenant,
            store=ARCHIVE,
            depth=depth,
            verdict=Verdict.DRIFT if findings else Verdict.CLEAN,
            records=seen,
            findings=tuple(findings),
            dry=dry,
        )

    def _pages(self, tenant: str, depth: Depth) -> Iterator[Sequence[Stub]]:
        full = depth is Depth.FULL
        after = uuid.UUID(int=0 if full else self.chance.getrandbits(128))
        left = self.rules.sample
        while full or left > 0:
            limit = PAGE if full else min(PAGE, left)
            with self.database.tenant(tenant) as session:
                page = stubs.page(session, tenant, after, limit)
            if page:
                yield page
            if len(page) < limit:
                return
            after, left = page[-1].embedding_id, left - len(page)

    def _strangers(self, tenant: str) -> Iterator[str]:
        listed = (info.key for info in self.blobs.list(f"{index_group(tenant)}/"))
        named = ((key, parsed[1]) for key in listed if (parsed := parse_archive_key(key)) is not None)
        while piece := dict(islice(named, PAGE)):
            with self.database.tenant(tenant) as session:
                yield from stubs.strangers(session, tenant, piece)


def _found(kind: Kind, names: Sequence[str], why: str) -> Found:
    return Found(kind=kind, found=len(names), why=why, samples=tuple(names[:SAMPLES]))
