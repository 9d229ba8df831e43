"""Reading and changing memory rows.

The old version, the outbox rows and the event that go with a change are the database's own doing
(triggers of migration 0004): no function here can forget them.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from psycopg.types.json import Jsonb

from core.errors import Misconfigured
from core.model.memory import Draft, Memory, Sealed, Source, Stored, embedding_id
from core.record.database import Row, Session, tuples
from core.record.graph import put_written
from core.record.keywords import put_terms
from core.record.queries import query

_COPY_TYPES = (
    *("text", "uuid", "text", "text", "text", "text", "text", "int8", "text", "text", "text", "text", "text"),
    *("text[]", "jsonb", "jsonb", "float8", "jsonb", "timestamptz", "timestamptz", "text", "int8"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Which memories to list: those that match every value given."""

    scope: str | None = None
    project: str | None = None
    session: str | None = None
    role: str | None = None


@dataclass(frozen=True, slots=True)
class Position:
    """The last row of a page, behind which the next one starts."""

    created_at: datetime
    id: str


@dataclass(frozen=True, slots=True)
class Standing:
    """What the record says of one memory now: its version, and whether an index should hold it."""

    version: int
    indexed: bool


@dataclass(frozen=True, slots=True)
class PointStanding:
    """What the record says of the memory behind a point: as `Standing`, and whether index work of it waits.

    `aside`: that work was set aside.
    """

    memory_id: str
    version: int
    indexed: bool
    waits: bool
    aside: bool


@dataclass(frozen=True, slots=True)
class Keys:
    """What holds for the whole engine: the epoch, the key of text hashes, and the database's time."""

    epoch: int
    hash_key: bytes
    moment: datetime


def store(session: Session, tenant: str, memory_id: str, draft: Draft, *, related: bool = True) -> int | None:
    """Write one memory under `memory_id`; its new version, or None when all of it was there already.

    With `related` it supports the draft's relations from here on; else those it supports stay as they are.
    """
    row = session.execute(query("memory_store"), {"tenant": tenant, **_values(tenant, memory_id, draft)}).fetchone()
    if row is not None:
        put_terms(session, tenant, {embedding_id(tenant, memory_id): draft})
        _forget_clear(session, tenant, {memory_id: draft})
    if related:
        # What it supported is looked for in a later statement: this one's may have begun before another writer ended.
        changed, same = ([], [memory_id]) if row is None else ([memory_id], [])
        put_written(session, tenant, {memory_id: draft}, changed, same)
    return None if row is None else int(row["version"])


def store_many(session: Session, tenant: str, drafts: Mapping[str, Draft]) -> dict[str, int]:
    """Write many memories by COPY; the new versions of those that changed."""
    if not drafts:
        return {}
    session.execute(query("memory_incoming"))
    with session.cursor() as cursor, cursor.copy(query("memory_incoming_copy")) as copy:
        copy.set_types(_COPY_TYPES)
        for number, (memory_id, draft) in enumerate(drafts.items()):
            copy.write_row((*_values(tenant, memory_id, draft).values(), number))
    rows = session.execute(query("memory_store_incoming"), {"tenant": tenant}).fetchall()
    session.execute("DROP TABLE pg_temp.incoming")
    put_terms(session, tenant, {embedding_id(tenant, row["id"]): drafts[row["id"]] for row in rows})
    _forget_clear(session, tenant, {row["id"]: drafts[row["id"]] for row in rows})
    versions = {row["id"]: int(row["version"]) for row in rows}
    put_written(session, tenant, drafts, list(versions), [name for name in drafts if name not in versions])
    return versions


def _forget_clear(session: Session, tenant: str, drafts: Mapping[str, Draft]) -> None:
    """Of what is sealed now, no older version stays in the clear."""
    sealed = [memory_id for memory_id, draft in drafts.items() if isinstance(draft, Sealed)]
    if sealed:
        session.execute(query("memory_forget_clear"), {"tenant": tenant, "ids": sealed})


def fetch(session: Session, tenant: str, ids: Sequence[str]) -> dict[str, Memory]:
    """The live memories among `ids`, by id."""
    rows = session.execute(query("memory_by_ids"), {"tenant": tenant, "ids": list(ids)}).fetchall()
    return {row["id"]: memory_of(row) for row in rows}


def fetch_points(session: Session, tenant: str, points: Sequence[uuid.UUID]) -> dict[uuid.UUID, Memory]:
    """The live memories behind index points, by point id."""
    rows = session.execute(query("memory_by_points"), {"tenant": tenant, "points": list(points)}).fetchall()
    return {row["embedding_id"]: memory_of(row) for row in rows}


def fetch_to_index(session: Session, tenant: str, ids: Sequence[str]) -> tuple[dict[str, Memory], dict[str, int]]:
    """What an index should hold of `ids`, and the versions of those it should not (deleted, archived)."""
    rows = session.execute(query("memory_to_index"), {"tenant": tenant, "ids": list(ids)}).fetchall()
    wanted = {row["id"]: memory_of(row) for row in rows if row["indexed"]}
    unwanted = {row["id"]: int(row["version"]) for row in rows if not row["indexed"]}
    return wanted, unwanted


def standings(session: Session, tenant: str, ids: Sequence[str]) -> dict[str, Standing]:
    """Version and indexed-or-not of the memories whose row is there, tombstones included."""
    rows = tuples(session, "memory_versions", {"tenant": tenant, "ids": list(ids)})
    return {memory_id: Standing(version, indexed) for memory_id, version, indexed in rows}


def wanted_points(session: Session, tenant: str, after: uuid.UUID, limit: int) -> list[tuple[uuid.UUID, str, int]]:
    """Point, id and version of what an index should hold, in the order of points, behind `after`."""
    values = {"tenant": tenant, "after": after, "limit": limit}
    return [(point, memory_id, version) for point, memory_id, version in tuples(session, "memory_stamps", values)]


def standings_of_points(
    session: Session, tenant: str, generation: int, points: Sequence[uuid.UUID]
) -> dict[uuid.UUID, PointStanding]:
    """What the record says of points in one generation, tombstones included; a point of no row is left out."""
    values = {"tenant": tenant, "generation": generation, "points": list(points)}
    rows = tuples(session, "memory_standing_of_points", values)
    return {point: PointStanding(memory_id, *rest) for point, memory_id, *rest in rows if memory_id is not None}


def lock(session: Session, tenant: str, memory_id: str) -> Memory | None:
    """The memory as it is now, held against other writers until the transaction ends; None: deleted or never there."""
    row = session.execute(query("memory_lock"), {"tenant": tenant, "id": memory_id}).fetchone()
    return None if row is None else memory_of(row)


def tombstone(session: Session, tenant: str, ids: Sequence[str]) -> dict[str, int]:
    """Delete memories; the tombstones' versions, for those that were alive."""
    rows = session.execute(query("memory_delete"), {"tenant": tenant, "ids": sorted(ids)}).fetchall()
    return {row["id"]: int(row["version"]) for row in rows}


def page(session: Session, tenant: str, place: Place, after: Position | None, limit: int) -> list[Memory]:
    """Up to `limit` live memories of a place, newest first, behind `after`."""
    values = {
        "tenant": tenant,
        "scope": place.scope,
        "project": place.project,
        "session": place.session,
        "role": place.role,
        "before": None if after is None else after.created_at,
        "before_id": None if after is None else after.id,
        "limit": limit,
    }
    return [memory_of(row) for row in session.execute(query("memory_page"), values).fetchall()]


def count(session: Session, tenant: str) -> int:
    """How many live memories a tenant has."""
    row = session.execute(query("memory_count"), {"tenant": tenant}).fetchone()
    return 0 if row is None else int(row["memories"])


def ids_of_source(session: Session, tenant: str, scope: str, path: str) -> list[str]:
    """Ids of the live memories ingested from one file into a scope."""
    values = {"tenant": tenant, "scope": scope, "path": path}
    return [row["id"] for row in session.execute(query("memory_ids_of_source"), values).fetchall()]


def sources(session: Session, tenant: str, scope: str, folder: str) -> list[str]:
    """Files whose paths begin with `folder` that live memories of a scope were ingested from."""
    values = {"tenant": tenant, "scope": scope, "folder": folder}
    return [row["path"] for row in session.execute(query("memory_sources"), values).fetchall()]


def keys(session: Session) -> Keys:
    """The engine's keys. Only a tenant's transaction may read them."""
    row = session.execute(query("engine_keys")).fetchone()
    if row is None:
        raise Misconfigured("the row of table `engine` is gone: restore the database")
    return Keys(int(row["epoch"]), bytes(row["hash_key"]), row["moment"])


def memory_of(row: Row) -> Memory:
    """A row of the memory table as a Memory."""
    source = row["source"]
    return Memory(
        tenant=row["tenant"],
        id=row["id"],
        embedding_id=row["embedding_id"],
        version=row["version"],
        subject=row["subject"],
        scope=row["scope"],
        project=row["project"],
        agent=row["agent"],
        session=row["session"],
        position=row["position"],
        speaker=row["speaker"],
        role=row["role"],
        type=row["type"],
        title=row["title"],
        content=row["content"],
        tags=tuple(row["tags"]),
        labels=row["labels"],
        metadata=row["metadata"],
        importance=row["importance"],
        tier=row["tier"],
        source=None if source is None else Source(**source),
        expires_at=row["expires_at"],
        accessed_at=row["accessed_at"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
        keep=row["keep"],
        key_id=row["key_id"],
        stored=None if row["content_sha256"] is None else Stored(row["archive_uri"], row["archive_sha256"]),
    )


def _values(tenant: str, memory_id: str, draft: Draft) -> dict[str, Any]:
    """The values of a draft in the order of the columns of `incoming`."""
    return {
        "id": memory_id,
        "embedding_id": embedding_id(tenant, memory_id),
        "subject": draft.subject,
        "scope": draft.scope,
        "project": draft.project,
        "agent": draft.agent,
        "session": draft.session,
        "position": draft.position,
        "speaker": draft.speaker,
        "role": draft.role,
        "type": draft.type,
        "title": draft.title,
        "content": draft.content,
        "tags": list(draft.tags),
        "labels": Jsonb(dict(draft.labels)),
        "metadata": Jsonb(dict(draft.metadata)),
        "importance": float(draft.importance),
        "source": None if draft.source is None else Jsonb(_source(draft.source)),
        "expires_at": draft.expires_at,
        "created_at": draft.created_at,
        "key_id": draft.key_id if isinstance(draft, Sealed) else None,
    }


def _source(source: Source) -> dict[str, Any]:
    return {"path": source.path, "first_line": source.first_line, "last_line": source.last_line}
