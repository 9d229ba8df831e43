"""The whole content of memories: opened where it is sealed, brought from its object where the row holds a stub."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TypeVar

from core.errors import BadAnswer, EngineError, NotFound
from core.model.archive import Archived, read_archived
from core.model.compression import decompress
from core.model.memory import Memory, Stored
from core.ports import BlobStore, Cache, Versioned
from core.record.vault import Vault

CONTENT_KEPT = timedelta(minutes=15)
Name = TypeVar("Name")


class Contents:
    """Reads what archived and sealed memories say. Thread-safe. Holds no transaction while it asks a store.

    Objects are cached as they are stored, compressed and sealed, by the version of the stub, and are checked each
    time they are used.
    """

    def __init__(self, vault: Vault, blobs: BlobStore, cache: Cache) -> None:
        self.vault = vault
        self._blobs = blobs
        self._cache = cache

    def bring(self, memories: Mapping[Name, Memory]) -> tuple[dict[Name, Memory], dict[Name, EngineError]]:
        """Memories whole and in the clear; and for those that cannot be, the reason. Raises nothing but bugs.

        Unavailable: the object store is out of reach. BadAnswer: the object is damaged or not the one the record
        points at. NotFound: it is gone, or its key was destroyed.
        """
        objects, problems = self._objects({name: one for name, one in memories.items() if one.stored is not None})
        found: dict[Name, Memory] = {}
        for name, memory in memories.items():
            if name in problems:
                continue
            try:
                whole = memory if memory.stored is None else self._whole(memory, memory.stored, objects[name])
                found[name] = self.vault.opened(whole)
            except EngineError as problem:
                problems[name] = problem
        return found, problems

    def whole(self, memories: Mapping[Name, Memory]) -> tuple[dict[Name, Memory], dict[Name, str]]:
        """As `bring`, for work that is done again later: raises Unavailable and Misconfigured.

        The reasons are of those that trying again does not help.
        """
        found, problems = self.bring(memories)
        for problem in problems.values():
            if not isinstance(problem, NotFound | BadAnswer):
                raise problem
        return found, {name: problem.message for name, problem in problems.items()}

    def read(self, memory: Memory, data: bytes) -> Archived:
        """What the object of a stub says. Raises BadAnswer unless it is the very one the record points at."""
        stored = memory.stored
        if stored is None or hashlib.sha256(data).hexdigest() != stored.sha256:
            raise BadAnswer("the archived object does not match the checksum in the record: nothing is taken from it")
        archived = self.opened(memory.tenant, stored.key, data)
        if (archived.tenant, archived.id) != (memory.tenant, memory.id):
            raise BadAnswer("the archived object is of another memory")
        return archived

    def opened(self, tenant: str, key: str, data: bytes) -> Archived:
        """What an object under a key says, whatever points at it. Raises BadAnswer, NotFound (its key is destroyed)."""
        return read_archived(decompress(self.vault.opened_object(tenant, key, data)))

    def fetch(self, keys: Sequence[str]) -> dict[str, bytes]:
        """Objects as they are stored. Raises Unavailable, Misconfigured."""
        return self._blobs.get_many(list(keys)) if keys else {}

    def forget(self, memory: Memory) -> None:
        """Cache nothing of a memory up to its version."""
        self._cache.drop_older(cache_key(memory.embedding_id.hex), memory.version, CONTENT_KEPT)

    def _objects(self, stubs: Mapping[Name, Memory]) -> tuple[dict[Name, bytes], dict[Name, EngineError]]:
        cached: dict[Name, bytes] = {}
        for name, memory in stubs.items():
            kept = self._cache.get_versioned(cache_key(memory.embedding_id.hex))
            if kept is not None and kept.version == memory.version and _matches(memory.stored, kept.value):
                cached[name] = kept.value
        missing = {name: memory.stored.key for name, memory in stubs.items() if name not in cached and memory.stored}
        problems: dict[Name, EngineError] = {}
        fetched: dict[str, bytes] = {}
        try:
            fetched = self.fetch(sorted(set(missing.values())))
        except EngineError as problem:
            problems = dict.fromkeys(missing, problem)
        for name, key in missing.items():
            if key in fetched:
                cached[name] = fetched[key]
                if _matches(stubs[name].stored, fetched[key]):
                    kept = Versioned(stubs[name].version, fetched[key])
                    self._cache.put_newer(cache_key(stubs[name].embedding_id.hex), kept, CONTENT_KEPT)
            else:
                problems.setdefault(name, NotFound("the object of an archived memory is gone"))
        return cached, problems

    def _whole(self, memory: Memory, stored: Stored, data: bytes) -> Memory:
        return replace(memory, content=self.read(replace(memory, stored=stored), data).content, stored=None)


def cache_key(point: str) -> str:
    """Under which name the object of a memory is cached; its point's id is of one tenant and id only."""
    return f"content:{point}"


def _matches(stored: Stored | None, data: bytes) -> bool:
    return stored is not None and hashlib.sha256(data).hexdigest() == stored.sha256
