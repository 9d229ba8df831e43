"""The archive chore: memories that rest go to the object store, and a stub of each stays in the record.

One step takes a batch in the order of ids: policies decide by facts; warm and cold change places; what is to be
archived is written as an object each, announced first, many at once, read back and compared by the store's port, and
only then one transaction takes the content out of the rows that are still the version in the object.

Before that, content over a set size leaves its row in the same way, whatever its tier: the memory stays where it is and
what it was, and only the place of its text changes.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from core.errors import BadAnswer, Busy, Conflict, NotFound, Refused, Transient
from core.model.archive import archived_json, read_archived, snippet
from core.model.compression import NEWEST, compress, dictionary_bytes
from core.model.memory import Memory
from core.model.names import archive_key
from core.model.policy import Action, Facts, Policies, decide
from core.ports import BlobStore, Locks
from core.record import archives, lifecycle, memories
from core.record.archives import Put
from core.record.contents import Contents
from core.record.database import Database
from core.record.fences import LockName, fenced

SAMPLE = 20
LOCK_KEPT = timedelta(minutes=10)


@dataclass(frozen=True, slots=True, kw_only=True)
class Portion:
    """Where a tenant's run stands: behind which id it goes on; `large`: content over the set size comes first."""

    tenant: str
    after: str = ""
    large: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What one or several steps did for a tenant; `next` is where to go on, None: done.

    Of `large` ones only the content moved. `moved_on` memories changed, or were read, while their object was written:
    they keep their rows. `failed` shows at most 20 ids with the reasons. Bytes: what the archived records take as
    JSON, and as objects.
    """

    tenant: str
    looked_at: int = 0
    cooled: int = 0
    warmed: int = 0
    archived: int = 0
    large: int = 0
    moved_on: int = 0
    failed_count: int = 0
    failed: dict[str, str] = field(default_factory=dict)
    bytes_before: int = 0
    bytes_after: int = 0
    postponed: str | None = None
    next: Portion | None = None

    def plus(self, other: Report) -> Report:
        """This report with another one's figures, and where that one ended."""
        names = (
            *("looked_at", "cooled", "warmed", "archived", "large", "moved_on", "failed_count"),
            *("bytes_before", "bytes_after"),
        )
        shown = dict(list({**self.failed, **other.failed}.items())[:SAMPLE])
        return replace(other, **{name: getattr(self, name) + getattr(other, name) for name in names}, failed=shown)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveWork:
    """What a step works with. A put is announced for `announced`; `check` is called before each step.

    Content of more than `large` bytes lives in an object from the next run on; None: whatever its size, in its row.
    """

    database: Database
    contents: Contents
    blobs: BlobStore
    locks: Locks
    policies: Policies
    new_id: Callable[[], uuid.UUID]
    batch: int = 500
    large: int | None = None
    announced: timedelta = timedelta(minutes=30)
    check: Callable[[], None] = lambda: None


@dataclass(slots=True)
class _Object:
    """One memory on its way out: its record, its object, and the data key it is under."""

    memory: Memory
    rests_since: datetime | None
    key: str
    data: bytes
    key_id: str | None
    plain_bytes: int


def plan(tenants: Sequence[str]) -> list[Portion]:
    """Where each tenant's run begins."""
    return [Portion(tenant=tenant) for tenant in tenants]


def step(work: ArchiveWork, portion: Portion) -> Report:
    """Do one batch. Killed anywhere, or run beside others, at every moment one complete copy is there.

    The object store out of reach, or another archiver of this tenant, ends the run early with `postponed`. Raises
    Misconfigured: a person has to act.
    """
    report = Report(tenant=portion.tenant)
    try:
        work.check()
        lock = LockName(tenant=portion.tenant, work="archive")
        with fenced(work.database, work.locks, lock, str(work.new_id()), LOCK_KEPT):
            return _step(work, portion)
    except (Busy, Transient) as problem:
        return replace(report, postponed=problem.message)


def total(tenant: str, reports: Iterable[Report]) -> Report:
    """The reports of one tenant as one."""
    summed = Report(tenant=tenant)
    for report in reports:
        summed = summed.plus(report)
    return summed


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Which version of a memory is to go out, if it was not read since (None: that is no matter)."""

    version: int
    rests_since: datetime | None = None


def _step(work: ArchiveWork, portion: Portion) -> Report:
    tenant = portion.tenant
    if portion.large and work.large is not None:
        return _large(work, portion, work.large)
    least = work.policies.least_rest(tenant)
    if least is None:
        return Report(tenant=tenant)
    with work.database.tenant(tenant) as session:
        facts, now = lifecycle.scan(session, tenant, portion.after, work.batch, least)
    decided: dict[Action, list[Facts]] = {}
    for one in facts:
        action = decide(one, work.policies.of(tenant, one.type), now)
        if action is not None:
            decided.setdefault(action, []).append(one)
    report = Report(tenant=tenant, looked_at=len(facts))
    with work.database.tenant(tenant) as session:
        cooled = lifecycle.set_tier(session, tenant, _versions(decided.get(Action.COLD, [])), "cold")
        warmed = lifecycle.set_tier(session, tenant, _versions(decided.get(Action.WARM, [])), "warm")
    report = replace(report, cooled=cooled, warmed=warmed)
    if resting := decided.get(Action.ARCHIVE):
        wanted = {one.id: _Wanted(one.version, one.rests_since) for one in resting}
        with work.database.tenant(tenant) as session:
            settled = archives.settle(session, tenant, {name: one.version for name, one in wanted.items()})
        rest = {name: one for name, one in wanted.items() if name not in settled}
        report = report.plus(replace(_archive(work, tenant, rest, "archive"), looked_at=0))
        report = replace(report, archived=report.archived + len(settled))
    following = replace(portion, after=facts[-1].id, large=False) if len(facts) == work.batch else None
    return replace(report, next=following if report.postponed is None else None)


def _large(work: ArchiveWork, portion: Portion, least: int) -> Report:
    """Content over the size goes out of its row; then the run goes on with what rests."""
    tenant = portion.tenant
    with work.database.tenant(tenant) as session:
        found = archives.large(session, tenant, portion.after, work.batch, least)
    report = Report(tenant=tenant, looked_at=len(found))
    if found:
        wanted = {name: _Wanted(version) for name, version in found.items()}
        report = report.plus(_archive(work, tenant, wanted, None))
        report = replace(report, archived=0, large=report.archived)
    more = len(found) == work.batch
    following = replace(portion, after=max(found)) if more else Portion(tenant=tenant, large=False)
    return replace(report, next=following if report.postponed is None else None)


def _archive(work: ArchiveWork, tenant: str, wanted: Mapping[str, _Wanted], tier: str | None) -> Report:
    objects, failed = _objects(work, tenant, wanted)
    keep_dictionary(work.blobs)
    named = {one.key: (one.memory.id, one.memory.version, len(one.data)) for one in objects}
    with work.database.tenant(tenant) as session:
        announced = archives.announce(session, tenant, named, work.announced)
    mine = {one.key: one for one in objects if one.key in announced}
    failed |= {one.memory.id: "its object is just being swept" for one in objects if one.key not in announced}
    refused = work.blobs.put_many({key: one.data for key, one in mine.items()})
    postponed = None
    for key, problem in refused.items():
        there = _adopted(work, mine[key]) if isinstance(problem, Conflict) else None
        if there is None:
            failed[mine.pop(key).memory.id] = problem.message
            postponed = problem.message if isinstance(problem, Transient) else postponed
        else:
            mine[key].data = there
    moved = _commit(work, tenant, list(mine.values()), tier)
    gone = [one for one in mine.values() if one.memory.id in moved]
    return Report(
        tenant=tenant,
        archived=len(gone),
        moved_on=len(wanted) - len(gone) - len(failed),
        failed_count=len(failed),
        failed=dict(list(failed.items())[:SAMPLE]),
        bytes_before=sum(one.plain_bytes for one in gone),
        bytes_after=sum(len(one.data) for one in gone),
        postponed=postponed,
    )


def keep_dictionary(blobs: BlobStore) -> None:
    """Keep the dictionary beside what is compressed with it: the archive can then be read without this engine."""
    key = f"@archive/dictionary-{NEWEST}.zdict"
    if blobs.stat(key) is None:
        blobs.put(key, dictionary_bytes(NEWEST))


def _objects(work: ArchiveWork, tenant: str, wanted: Mapping[str, _Wanted]) -> tuple[list[_Object], dict[str, str]]:
    """The objects of memories that still are what was judged; and why some cannot have one."""
    with work.database.tenant(tenant) as session:
        found = memories.fetch(session, tenant, list(wanted))
    made: list[_Object] = []
    failed: dict[str, str] = {}
    for memory_id, one in wanted.items():
        memory = found.get(memory_id)
        if memory is None or memory.version != one.version or memory.stored is not None:
            continue
        try:
            key = archive_key(tenant, memory.id, memory.version, memory.created_at)
        except Refused as problem:
            failed[memory.id] = problem.message
            continue
        plain = archived_json(memory)
        data, key_id = work.contents.vault.sealed_object(tenant, key, compress(plain))
        made.append(_Object(memory, one.rests_since, key, data, key_id, len(plain)))
    return made, failed


def _adopted(work: ArchiveWork, wanted: _Object) -> bytes | None:
    """Other bytes under the key, made by another release or under another key: fine if they hold the same record."""
    try:
        data = work.blobs.get(wanted.key)
        there = work.contents.opened(wanted.memory.tenant, wanted.key, data)
    except (NotFound, BadAnswer):
        return None
    return data if there == read_archived(archived_json(wanted.memory)) else None


def _commit(work: ArchiveWork, tenant: str, objects: Sequence[_Object], tier: str | None) -> set[str]:
    if not objects:
        return set()
    puts = [_put(one) for one in objects]
    with work.database.tenant(tenant) as session:
        for key_id in {one.key_id for one in objects}:
            work.contents.vault.hold(session, tenant, key_id)
        return archives.commit(session, tenant, puts, tier)


def _put(one: _Object) -> Put:
    memory = one.memory
    return Put(
        id=memory.id,
        version=memory.version,
        key=one.key,
        sha256=hashlib.sha256(one.data).hexdigest(),
        snippet=snippet(memory.content) if memory.key_id is None else "",
        content_sha256=hashlib.sha256(memory.content.encode()).hexdigest(),
        key_id=memory.key_id,
        rests_since=one.rests_since,
    )


def _versions(facts: Sequence[Facts]) -> Mapping[str, int]:
    return {one.id: one.version for one in facts}
