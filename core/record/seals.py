"""Sealed memories in the record, and putting them under the key in use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from psycopg.types.json import Jsonb

from core.model.memory import Sealed
from core.record.database import Session
from core.record.queries import query


def old_seals(session: Session, tenant: str, key_id: str, after: str, limit: int) -> list[str]:
    """Ids of memories sealed under another key than this one, in their order, behind `after`."""
    values = {"tenant": tenant, "key_id": key_id, "after": after, "limit": limit}
    return [row["id"] for row in session.execute(query("key_old_seals"), values).fetchall()]


def reseal(session: Session, tenant: str, key_id: str, drafts: Mapping[str, tuple[int, Sealed]]) -> int:
    """Put memories, by id with their version, under another key where they are still at that version; how many."""
    sealed: Sequence[Sealed] = [draft for _, draft in drafts.values()]
    values = {
        "tenant": tenant,
        "key_id": key_id,
        "ids": list(drafts),
        "versions": [version for version, _ in drafts.values()],
        "contents": [draft.content for draft in sealed],
        "titles": [draft.title for draft in sealed],
        "metadatas": [Jsonb(dict(draft.metadata)) for draft in sealed],
    }
    return len(session.execute(query("key_reseal"), values).fetchall())
