"""The way back from the archive: an object's content into its memory's row, if the row still is that object's stub."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from core.errors import BadAnswer, NotFound
from core.model.memory import Memory
from core.record import archives, memories
from core.record.contents import Contents
from core.record.database import Database
from core.write.gate import admit_id, admit_tenant

PIECE = 200


class Became(StrEnum):
    """What became of one memory of a restore."""

    RESTORED = "restored"
    WARM = "warm"  # it is not archived
    NEWER = "newer"  # it changed meanwhile, and the newer state stays
    GONE = "gone"  # there is no such memory, or its object or key is gone
    DAMAGED = "damaged"  # its object is not what the record says: nothing was overwritten


@dataclass(frozen=True, slots=True)
class Restored:
    """The result for one memory; `reason` in words where it was not restored."""

    id: str
    became: Became
    reason: str | None = None


class Restorer:
    """Makes archived memories warm again. Thread-safe."""

    def __init__(self, database: Database, contents: Contents) -> None:
        self._database = database
        self._contents = contents

    def restore(self, tenant: str, memory_ids: Sequence[str]) -> list[Restored]:
        """Bring memories back by id; one result each, in that order. They are embedded again by the embed chore.

        Raises Unavailable when a store is out of reach: what was restored before is, and it can be done again.
        """
        tenant = admit_tenant(tenant)
        ids = list(dict.fromkeys(admit_id(memory_id) for memory_id in memory_ids))
        found: list[Restored] = []
        for start in range(0, len(ids), PIECE):
            found += self._piece(tenant, ids[start : start + PIECE])
        return found

    def restore_all(self, tenant: str, place: Mapping[str, str | None]) -> Iterator[list[Restored]]:
        """Bring back all of a tenant, or of its `session` or `type`, piece by piece."""
        tenant, after = admit_tenant(tenant), ""
        while True:
            with self._database.tenant(tenant) as session:
                ids = archives.stubs(session, tenant, after, PIECE, place)
            if not ids:
                return
            after = ids[-1]
            yield self._piece(tenant, ids)

    def _piece(self, tenant: str, ids: Sequence[str]) -> list[Restored]:
        with self._database.tenant(tenant) as session:
            found = memories.fetch(session, tenant, ids)
        stubs = {one.id: one for one in found.values() if one.stored is not None}
        objects = self._contents.fetch(sorted({one.stored.key for one in stubs.values() if one.stored is not None}))
        results: dict[str, Restored] = {}
        contents: dict[str, tuple[int, str]] = {}
        for memory_id in ids:
            if memory_id not in found:
                results[memory_id] = Restored(memory_id, Became.GONE, "there is no such memory")
            elif memory_id not in stubs:
                results[memory_id] = Restored(memory_id, Became.WARM, "it is not archived")
            else:
                self._read(stubs[memory_id], objects, contents, results)
        with self._database.tenant(tenant) as session:
            back = archives.restore(session, tenant, contents)
        for memory_id in contents:
            newer = Restored(memory_id, Became.NEWER, "it changed meanwhile: the newer state stays")
            results[memory_id] = Restored(memory_id, Became.RESTORED) if memory_id in back else newer
        return [results[memory_id] for memory_id in ids]

    def _read(
        self,
        stub: Memory,
        objects: Mapping[str, bytes],
        contents: dict[str, tuple[int, str]],
        results: dict[str, Restored],
    ) -> None:
        """The content of a stub's object, or the result that says why there is none."""
        data = None if stub.stored is None else objects.get(stub.stored.key)
        if data is None:
            results[stub.id] = Restored(stub.id, Became.GONE, "its object is gone")
            return
        try:
            contents[stub.id] = (stub.version, self._contents.read(stub, data).content)
        except NotFound as problem:
            results[stub.id] = Restored(stub.id, Became.GONE, problem.message)
        except BadAnswer as problem:
            results[stub.id] = Restored(stub.id, Became.DAMAGED, problem.message)
