"""The way in: write, update, delete, one or many.

What returns is committed in PostgreSQL; nothing else has to be up.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum
from itertools import islice
from typing import Any

from core.errors import Conflict, Misconfigured, NotFound, Permanent, Refused
from core.model.memory import Draft, Memory, Sealed
from core.model.query import Filters
from core.model.space import EmbeddingSpace
from core.record import memories, reaping
from core.record.contents import Contents
from core.record.database import Database, Session
from core.record.generations import live_generation, register_first
from core.write.asked import admit_filters
from core.write.gate import admit, admit_changes, admit_id, admit_tenant, names_in_the_clear

# A bulk write commits in pieces of this many: a registration waits for one piece at the most.
PIECE = 2000


class Kept(StrEnum):
    """What became of one item of a write."""

    STORED = "stored"
    UNCHANGED = "unchanged"
    SKIPPED = "skipped"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """The result of writing one item.

    `version` is set when it was stored. `cleaned` names the places where the text gate changed
    something. `reason` says why an item was skipped or refused. `number` is its place in a bulk.
    """

    id: str | None
    kept: Kept
    version: int | None = None
    cleaned: tuple[str, ...] = ()
    reason: str | None = None
    number: int = 0


class Writer:
    """Writes memories of any tenant. Thread-safe.

    `new_id` gives ids to memories whose caller gave none; `space` is the embedding space a new
    tenant's first generation is registered with.
    """

    def __init__(
        self, database: Database, space: EmbeddingSpace, new_id: Callable[[], str], contents: Contents | None = None
    ) -> None:
        self._contents = contents
        self._database = database
        self._space = space
        self._new_id = new_id
        self._known: set[str] = set()
        self._lock = threading.Lock()

    def write(self, tenant: str, draft: Draft) -> Written:
        """Keep one memory. The same id again replaces it, the same values again change nothing.

        Raises Refused with `where` for input that breaks a rule, Transient when PostgreSQL is out of reach.
        """
        admitted = admit(tenant, draft)
        self._ensure_registered(tenant)
        memory_id = admitted.draft.id or self._new_id()
        sealed = self._sealed(tenant, memory_id, admitted.draft)
        with self._database.tenant(tenant) as session:
            self._hold_key(session, tenant, [sealed])
            version = memories.store(session, tenant, memory_id, sealed)
        kept = Kept.UNCHANGED if version is None else Kept.STORED
        return Written(id=memory_id, kept=kept, version=version, cleaned=admitted.cleaned)

    def update(self, tenant: str, memory_id: str, changes: Mapping[str, Any], expected_version: int) -> Written:
        """Change some fields of a memory that is still at `expected_version`; None clears an optional field.

        Without another `content` or `relations` it supports what it did; relations alone raise no version.
        Raises Conflict (with `current`) when it is at another version, NotFound when it is deleted or
        never was, Refused for values that break a rule.
        """
        tenant, memory_id = admit_tenant(tenant), admit_id(memory_id)
        admitted = admit_changes(changes)
        whole = self._whole(tenant, memory_id, expected_version)
        changed = names_in_the_clear(replace(_draft_of(whole), **admitted.changes))
        # What a memory supports is said of its text: of another text only what is stated with it holds.
        related = changed.sensitive or changed.content != whole.content or "relations" in admitted.changes
        sealed = self._sealed(tenant, memory_id, changed)
        with self._database.tenant(tenant) as session:
            self._hold_key(session, tenant, [sealed])
            current = _at(memories.lock(session, tenant, memory_id), memory_id, expected_version)
            version = memories.store(session, tenant, memory_id, sealed, related=related)
        if version is None:
            return Written(id=memory_id, kept=Kept.UNCHANGED, version=current.version, cleaned=admitted.cleaned)
        return Written(id=memory_id, kept=Kept.STORED, version=version, cleaned=admitted.cleaned)

    def _whole(self, tenant: str, memory_id: str, expected_version: int) -> Memory:
        """The memory at a version, with its whole content in the clear, which may lie in another store.

        Read before the transaction that changes it: none is open while another store is asked, and a version's
        fields never change.
        """
        with self._database.tenant(tenant) as session:
            found = memories.fetch(session, tenant, [memory_id])
        current = _at(found.get(memory_id), memory_id, expected_version)
        if self._contents is None:
            return current
        whole, problems = self._contents.bring({memory_id: current})
        if problems:
            raise problems[memory_id]
        return whole[memory_id]

    def _sealed(self, tenant: str, memory_id: str, draft: Draft) -> Draft:
        if not draft.sensitive:
            return draft
        if self._contents is None:
            raise Misconfigured("there is no master key for what is sensitive: set key_provider")
        return self._contents.vault.sealed_draft(tenant, memory_id, draft)

    def _hold_key(self, session: Session, tenant: str, drafts: Iterable[Draft]) -> None:
        for key_id in {draft.key_id for draft in drafts if isinstance(draft, Sealed)}:
            if self._contents is not None:
                self._contents.vault.hold(session, tenant, key_id)

    def delete(self, tenant: str, memory_id: str) -> bool:
        """Delete a memory: from here on no reader sees it. False: there was none."""
        return bool(self.delete_many(tenant, [memory_id]))

    def delete_many(self, tenant: str, memory_ids: Sequence[str]) -> list[str]:
        """Delete memories, in committed pieces; the ids of those that were there. An empty list deletes nothing."""
        tenant = admit_tenant(tenant)
        ids = [admit_id(memory_id) for memory_id in memory_ids]
        gone: list[str] = []
        for start in range(0, len(ids), PIECE):
            with self._database.tenant(tenant) as session:
                gone += memories.tombstone(session, tenant, ids[start : start + PIECE])
        return sorted(gone)

    def delete_older(self, tenant: str, age: timedelta, *, session: str | None = None, kind: str | None = None) -> int:
        """Delete what was created longer ago than `age`, of a session and a type if named; kept memories stay.

        In committed pieces; how many went. Raises Refused for an age of nothing.
        """
        tenant = admit_tenant(tenant)
        place = admit_filters(Filters(session=session, type=kind))
        gone = 0
        while True:
            with self._database.tenant(tenant) as transaction:
                piece = reaping.delete_older(
                    transaction, tenant, age, PIECE, of_session=place.session, of_type=place.type
                )
            gone += piece
            if not piece:
                return gone

    def write_many(self, tenant: str, drafts: Iterable[Draft]) -> Iterator[Written]:
        """Keep many memories, one result an item in the order given; one bad item never touches its neighbours.

        Results of a piece of 2,000 are given once the piece is committed. An id that stands twice in
        a piece: the last one wins, both are reported.
        """
        tenant = admit_tenant(tenant)
        self._ensure_registered(tenant)
        numbered = enumerate(drafts)
        while piece := list(islice(numbered, PIECE)):
            yield from self._write_piece(tenant, piece)

    def write_together(self, tenant: str, drafts: Sequence[Draft]) -> list[Written]:
        """Keep up to 2,000 memories in one transaction: all of them or none.

        Ids the record already knows, those of deleted memories included, are left as they are. Raises Refused
        for the first draft that breaks a rule, Transient when PostgreSQL is out of reach.
        """
        tenant = admit_tenant(tenant)
        if len(drafts) > PIECE:
            raise Refused(f"{PIECE} memories at the most are kept together", where="drafts")
        admitted = [admit(tenant, draft) for draft in drafts]
        named = {one.draft.id or self._new_id(): one for one in admitted}
        self._ensure_registered(tenant)
        sealed = {memory_id: self._sealed(tenant, memory_id, one.draft) for memory_id, one in named.items()}
        with self._database.tenant(tenant) as session:
            self._hold_key(session, tenant, sealed.values())
            known = memories.standings(session, tenant, list(named))
            fresh = {memory_id: draft for memory_id, draft in sealed.items() if memory_id not in known}
            versions = memories.store_many(session, tenant, fresh)
        return [
            Written(
                id=memory_id,
                kept=Kept.STORED if memory_id in versions else Kept.UNCHANGED,
                version=versions.get(memory_id),
                cleaned=one.cleaned,
                number=number,
            )
            for number, (memory_id, one) in enumerate(named.items())
        ]

    def _write_piece(self, tenant: str, piece: list[tuple[int, Draft]]) -> list[Written]:
        results: list[Written] = []
        to_store: dict[str, Draft] = {}
        for number, draft in piece:
            try:
                admitted = admit(tenant, draft)
            except Refused as problem:
                results.append(_refused(number, draft, problem))
                continue
            memory_id = admitted.draft.id or self._new_id()
            to_store.pop(memory_id, None)
            to_store[memory_id] = self._sealed(tenant, memory_id, admitted.draft)
            results.append(Written(id=memory_id, kept=Kept.UNCHANGED, cleaned=admitted.cleaned, number=number))
        versions, refused = self._store(tenant, to_store)
        return _with_versions(results, versions, refused)

    def _store(self, tenant: str, drafts: Mapping[str, Draft]) -> tuple[dict[str, int], dict[str, str]]:
        """Versions of what changed, and why PostgreSQL refused what the gate let through (nothing is known to)."""
        try:
            with self._database.tenant(tenant) as session:
                self._hold_key(session, tenant, drafts.values())
                return memories.store_many(session, tenant, drafts), {}
        except Permanent:
            if len(drafts) == 1:
                raise
        versions: dict[str, int] = {}
        refused: dict[str, str] = {}
        for memory_id, draft in drafts.items():
            try:
                versions |= self._store(tenant, {memory_id: draft})[0]
            except Permanent as problem:
                refused[memory_id] = problem.message
        return versions, refused

    def _ensure_registered(self, tenant: str) -> None:
        """A tenant's first write registers its generation 1, before and apart from the write itself."""
        with self._lock:
            if tenant in self._known:
                return
        with self._database.tenant(tenant) as session:
            known = live_generation(session, tenant)
        if known is None:
            register_first(self._database, tenant, self._space)
        with self._lock:
            self._known.add(tenant)


def _at(current: Memory | None, memory_id: str, expected_version: int) -> Memory:
    """The memory, if it is there at the expected version. Raises NotFound, Conflict."""
    if current is None:
        raise NotFound(f"there is no memory {memory_id!r}")
    if current.version != expected_version:
        raise Conflict(f"the memory is at version {current.version}, not {expected_version}", current=current.version)
    return current


def _with_versions(results: list[Written], versions: dict[str, int], refused: dict[str, str]) -> list[Written]:
    """Results of a piece after its commit; of items with one id, all but the last were overruled by it."""
    last = {result.id: result.number for result in results if result.kept is Kept.UNCHANGED}
    settled = []
    for result in results:
        if result.kept is not Kept.UNCHANGED or result.id is None:
            settled.append(result)
        elif last[result.id] != result.number:
            settled.append(replace(result, kept=Kept.SKIPPED, reason="the same id stands further down"))
        elif result.id in refused:
            settled.append(replace(result, kept=Kept.REFUSED, reason=refused[result.id]))
        elif result.id in versions:
            settled.append(replace(result, kept=Kept.STORED, version=versions[result.id]))
        else:
            settled.append(result)
    return settled


def _refused(number: int, draft: object, problem: Refused) -> Written:
    given = draft.id if isinstance(draft, Draft) and isinstance(draft.id, str) else None
    if problem.details.get("reason") == "empty":
        return Written(id=given, kept=Kept.SKIPPED, reason="empty", number=number)
    reason = f"{problem.where}: {problem.message}" if problem.where else problem.message
    return Written(id=given, kept=Kept.REFUSED, reason=reason, number=number)


def _draft_of(memory: Memory) -> Draft:
    return Draft(
        content=memory.content,
        id=memory.id,
        subject=memory.subject,
        scope=memory.scope,
        project=memory.project,
        agent=memory.agent,
        session=memory.session,
        position=memory.position,
        speaker=memory.speaker,
        role=memory.role,
        type=memory.type,
        title=memory.title,
        tags=memory.tags,
        labels=memory.labels,
        metadata=memory.metadata,
        importance=memory.importance,
        source=memory.source,
        expires_at=memory.expires_at,
        created_at=memory.created_at,
        sensitive=memory.key_id is not None,
    )
