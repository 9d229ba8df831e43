"""The rotate chore: every data key under the master key in use, every sensitive memory under its tenant's key in use.

The keys before stay, and open what was sealed under them: archived objects and old versions, which never change.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from core.errors import Busy, Transient
from core.model.memory import Draft, Memory, Sealed
from core.ports import Locks
from core.record import memories, seals
from core.record.database import Database
from core.record.fences import LockName, fenced
from core.record.vault import Vault

LOCK_KEPT = timedelta(minutes=10)


@dataclass(frozen=True, slots=True, kw_only=True)
class Portion:
    """Where a tenant's run stands; `begun`: its keys are wrapped anew, and a new one was made if it was asked for."""

    tenant: str
    new_key: bool = False
    begun: bool = False
    after: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What one or several steps did for a tenant; `failed` memories cannot be opened. `next` None: done."""

    tenant: str
    rewrapped: int = 0
    resealed: int = 0
    failed: int = 0
    postponed: str | None = None
    next: Portion | None = None

    def plus(self, other: Report) -> Report:
        """This report with another one's figures, and where that one ended."""
        names = ("rewrapped", "resealed", "failed")
        return replace(other, **{name: getattr(self, name) + getattr(other, name) for name in names})


@dataclass(frozen=True, slots=True, kw_only=True)
class RotateWork:
    """What a step works with."""

    database: Database
    vault: Vault
    locks: Locks
    new_id: Callable[[], uuid.UUID]
    batch: int = 500
    check: Callable[[], None] = lambda: None


def plan(tenants: Sequence[str], *, new_key: bool) -> list[Portion]:
    """Where each tenant's run begins; with `new_key` each gets a new data key first."""
    return [Portion(tenant=tenant, new_key=new_key) for tenant in tenants]


def step(work: RotateWork, portion: Portion) -> Report:
    """Do one batch. Killed anywhere, or run twice, every memory is sealed under one key that is there.

    Raises Misconfigured when a master key is missing.
    """
    try:
        work.check()
        lock = LockName(tenant=portion.tenant, work="rotate")
        with fenced(work.database, work.locks, lock, str(work.new_id()), LOCK_KEPT):
            return _reseal(work, portion) if portion.begun else _begin(work, portion)
    except (Busy, Transient) as problem:
        return Report(tenant=portion.tenant, postponed=problem.message)


def _begin(work: RotateWork, portion: Portion) -> Report:
    rewrapped = work.vault.rewrap(portion.tenant)
    if portion.new_key:
        work.vault.rotate(portion.tenant)
    return Report(tenant=portion.tenant, rewrapped=rewrapped, next=replace(portion, begun=True))


def _reseal(work: RotateWork, portion: Portion) -> Report:
    tenant = portion.tenant
    key = work.vault.in_use(tenant)
    with work.database.tenant(tenant) as session:
        ids = seals.old_seals(session, tenant, key.id, portion.after, work.batch)
        found = memories.fetch(session, tenant, ids)
    if not ids:
        return Report(tenant=tenant)
    opened, failed = work.vault.all_opened(found)
    drafts: dict[str, tuple[int, Sealed]] = {}
    for memory_id, memory in opened.items():
        draft = work.vault.sealed_draft(tenant, memory_id, _draft_of(memory))
        if isinstance(draft, Sealed) and draft.key_id == key.id:
            drafts[memory_id] = (memory.version, draft)
    with work.database.tenant(tenant) as session:
        work.vault.hold(session, tenant, key.id)
        resealed = seals.reseal(session, tenant, key.id, drafts)
    return Report(tenant=tenant, resealed=resealed, failed=len(failed), next=replace(portion, after=ids[-1]))


def _draft_of(memory: Memory) -> Draft:
    """As much of a memory as is sealed."""
    return Draft(content=memory.content, title=memory.title, metadata=memory.metadata, sensitive=True)
