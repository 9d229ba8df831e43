"""The data keys of tenants, and what is sealed and opened with them: sensitive memories, and archived objects.

Envelope encryption: each tenant has data keys of its own, kept in the record wrapped by a master key that a
`KeyProvider` holds. No plaintext of a sensitive memory leaves the process but as what the embedding model is asked.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import timedelta
from typing import Any, TypeVar

from core.errors import BadAnswer, Busy, Misconfigured, NotFound
from core.model.memory import Draft, Memory, Sealed
from core.model.sealing import (
    KEY_BYTES,
    DataKey,
    object_key_id,
    seal_object,
    seal_text,
    unseal_object,
    unseal_text,
)
from core.ports import KeyProvider
from core.record.database import Database, Row, Session
from core.record.queries import query

# How long a process goes on with a key it knows: so long after a key was destroyed it may still be in some memory.
KEY_KEPT = timedelta(seconds=60)
Name = TypeVar("Name")


@dataclass(frozen=True, slots=True)
class Chance:
    """Where keys and their names come from, and a clock (seconds, monotonic) for how long one is known."""

    new_id: Callable[[], str]
    random_bytes: Callable[[int], bytes]
    clock: Callable[[], float]


class Vault:
    """Seals and opens for all tenants. Thread-safe. Without a provider nothing is sealed, and nothing sealed opens."""

    def __init__(self, database: Database, provider: KeyProvider | None, chance: Chance) -> None:
        self._database = database
        self._provider = provider
        self._chance = chance
        self._known: dict[tuple[str, str | None], tuple[float, DataKey]] = {}
        self._lock = threading.Lock()

    @property
    def seals(self) -> bool:
        """Whether there is a master key at all."""
        return self._provider is not None

    def in_use(self, tenant: str) -> DataKey:
        """The key a tenant's new seals are under; made if it has none. Raises Misconfigured without a provider."""
        provider = self._needed()
        if (known := self._recall(tenant, None)) is not None:
            return known
        row = self._row("key_in_use", tenant)
        if row is None:
            key = DataKey(self._chance.new_id(), self._chance.random_bytes(KEY_BYTES))
            values = {"id": key.id, "wrapped": provider.wrap(tenant, key.secret), "master": provider.name}
            with self._database.tenant(tenant) as session:
                session.execute(query("key_add"), {"tenant": tenant, **values})
            row = self._row("key_in_use", tenant)
        if row is None:
            raise Busy("the tenant's keys are being changed")
        return self._keep(tenant, None, self._unwrapped(tenant, row))

    def key(self, tenant: str, key_id: str) -> DataKey:
        """A key by its id. Raises NotFound once it was destroyed, Misconfigured without a provider."""
        self._needed()
        if (known := self._recall(tenant, key_id)) is not None:
            return known
        row = self._row("key_by_id", tenant, id=key_id)
        if row is None:
            raise NotFound("the key this is sealed under was destroyed")
        return self._keep(tenant, key_id, self._unwrapped(tenant, row))

    def hold(self, session: Session, tenant: str, key_id: str | None) -> None:
        """In the transaction that keeps something sealed: the key stays until it ends. Raises Busy if it is gone."""
        if key_id is None:
            return
        if session.execute(query("key_hold"), {"tenant": tenant, "id": key_id}).fetchone() is None:
            self.forget(tenant)
            raise Busy("the key was destroyed meanwhile: do it again, under a new one")

    def sealed_draft(self, tenant: str, memory_id: str, draft: Draft) -> Draft:
        """The draft, sealed if it is sensitive. Raises Misconfigured when it is and there is no key."""
        return draft if not draft.sensitive else _sealed(self.in_use(tenant), tenant, memory_id, draft)

    def opened(self, memory: Memory) -> Memory:
        """The memory in the clear. Raises NotFound when its key was destroyed, BadAnswer when it was tampered with."""
        if memory.key_id is None:
            return memory
        key = self.key(memory.tenant, memory.key_id)
        place = _places(memory.tenant, memory.id)
        return replace(
            memory,
            content=unseal_text(key, place("content"), memory.content) if memory.content else "",
            title=None if memory.title is None else unseal_text(key, place("title"), memory.title),
            metadata={
                name: json.loads(unseal_text(key, place(f"metadata.{name}"), value))
                for name, value in memory.metadata.items()
            },
        )

    def all_opened(self, memories: Mapping[Name, Memory]) -> tuple[dict[Name, Memory], dict[Name, str]]:
        """Memories in the clear; and why some cannot be, which fails none of the others. Raises as `key` else."""
        found: dict[Name, Memory] = {}
        problems: dict[Name, str] = {}
        for name, memory in memories.items():
            try:
                found[name] = self.opened(memory)
            except (NotFound, BadAnswer) as problem:
                problems[name] = problem.message
        return found, problems

    def sealed_object(self, tenant: str, key: str, data: bytes) -> tuple[bytes, str | None]:
        """An object as it is put, and the data key it is under; as it is (and None) where there is no provider."""
        if self._provider is None:
            return data, None
        chosen = self.in_use(tenant)
        return seal_object(chosen, key, data), chosen.id

    def opened_object(self, tenant: str, key: str, data: bytes) -> bytes:
        """What was sealed into an object. Raises as `opened` does."""
        key_id = object_key_id(data)
        return data if key_id is None else unseal_object(self.key(tenant, key_id), key, data)

    def rotate(self, tenant: str) -> str:
        """Put a new key to use; the older ones go on opening what was sealed under them. The new key's id."""
        provider = self._needed()
        key = DataKey(self._chance.new_id(), self._chance.random_bytes(KEY_BYTES))
        values = {"id": key.id, "wrapped": provider.wrap(tenant, key.secret), "master": provider.name}
        with self._database.tenant(tenant) as session:
            session.execute(query("key_retire"), {"tenant": tenant})
            session.execute(query("key_add"), {"tenant": tenant, **values})
        self.forget(tenant)
        return key.id

    def rewrap(self, tenant: str) -> int:
        """Wrap every key of a tenant by the master key in use now; how many had another."""
        provider = self._needed()
        with self._database.tenant(tenant) as session:
            rows = session.execute(query("key_list"), {"tenant": tenant}).fetchall()
        old = [row for row in rows if row["master"] != provider.name]
        for row in old:
            wrapped = provider.wrap(tenant, self._unwrapped(tenant, row).secret)
            values = {"tenant": tenant, "id": row["id"], "wrapped": wrapped, "master": provider.name}
            with self._database.tenant(tenant) as session:
                session.execute(query("key_rewrap"), values)
        return len(old)

    def hold_all(self, session: Session, tenant: str) -> list[str]:
        """Every key of a tenant: nobody keeps anything sealed under them until the caller's transaction ends."""
        return [row["id"] for row in session.execute(query("key_hold_all"), {"tenant": tenant}).fetchall()]

    def destroy(self, session: Session, tenant: str, ids: Sequence[str]) -> int:
        """Destroy keys of a tenant, in the caller's transaction: what is sealed under them is gone for good."""
        gone = len(session.execute(query("key_destroy"), {"tenant": tenant, "ids": list(ids)}).fetchall())
        self.forget(tenant)
        return gone

    def give_up(self, tenant: str) -> None:
        """Let the provider give up what it keeps for a tenant alone, once its data keys are destroyed."""
        if self._provider is not None:
            self._provider.destroy(tenant)

    def forget(self, tenant: str) -> None:
        """Know no key of a tenant any more."""
        with self._lock:
            for name in [name for name in self._known if name[0] == tenant]:
                del self._known[name]

    def _needed(self) -> KeyProvider:
        if self._provider is None:
            raise Misconfigured("there is no master key for what is sensitive: set key_provider")
        return self._provider

    def _row(self, name: str, tenant: str, **values: str) -> Row | None:
        with self._database.tenant(tenant) as session:
            return session.execute(query(name), {"tenant": tenant, **values}).fetchone()

    def _unwrapped(self, tenant: str, row: Row) -> DataKey:
        return DataKey(row["id"], self._needed().unwrap(tenant, bytes(row["wrapped"]), row["master"]))

    def _recall(self, tenant: str, name: str | None) -> DataKey | None:
        with self._lock:
            known = self._known.get((tenant, name))
        fresh = known is not None and self._chance.clock() - known[0] < KEY_KEPT.total_seconds()
        return known[1] if fresh and known is not None else None

    def _keep(self, tenant: str, name: str | None, key: DataKey) -> DataKey:
        with self._lock:
            self._known[tenant, name] = (self._chance.clock(), key)
        return key


def _sealed(key: DataKey, tenant: str, memory_id: str, draft: Draft) -> Sealed:
    place = _places(tenant, memory_id)
    named: dict[str, Any] = {field.name: getattr(draft, field.name) for field in fields(Draft)}
    named["content"] = seal_text(key, place("content"), draft.content)
    named["title"] = None if draft.title is None else seal_text(key, place("title"), draft.title)
    named["metadata"] = {
        name: seal_text(key, place(f"metadata.{name}"), json.dumps(value, ensure_ascii=False, sort_keys=True))
        for name, value in draft.metadata.items()
    }
    return Sealed(**named, key_id=key.id)


def _places(tenant: str, memory_id: str) -> Callable[[str], str]:
    """The place of each field of a memory; lengths stand first, so that no two places read the same."""
    return lambda name: f"{len(tenant)}:{tenant}{len(memory_id)}:{memory_id}:{name}"
