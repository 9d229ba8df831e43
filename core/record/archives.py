"""The record's side of archived objects: announcing puts, turning memories into stubs and back, sweeping."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from core.record.database import Session
from core.record.queries import query


@dataclass(frozen=True, slots=True, kw_only=True)
class Put:
    """One version of a memory that lies in an object, read back and compared, and what its row is to keep.

    `content_sha256` is of the whole content as the row held it, sealed under `key_id` if it is; `rests_since` None:
    an access since is no matter.
    """

    id: str
    version: int
    key: str
    sha256: str
    snippet: str
    content_sha256: str
    key_id: str | None
    rests_since: datetime | None


@dataclass(frozen=True, slots=True)
class Object:
    """An announced object of a memory; `arriving`: a put of it may still be under way, until `live_until`."""

    key: str
    memory_id: str
    live_until: datetime
    arriving: bool


def announce(session: Session, tenant: str, keys: Mapping[str, tuple[str, int, int]], live: timedelta) -> set[str]:
    """Announce puts, by key with id, version and bytes, for so long; the keys that may be put now."""
    values = {
        "tenant": tenant,
        "keys": list(keys),
        "ids": [memory_id for memory_id, _, _ in keys.values()],
        "versions": [version for _, version, _ in keys.values()],
        "bytes": [size for _, _, size in keys.values()],
        "live": live,
    }
    return {row["key"] for row in session.execute(query("archive_announce"), values).fetchall()}


def commit(session: Session, tenant: str, puts: Sequence[Put], tier: str | None) -> set[str]:
    """Content out, stub in, for puts still announced of memories still at that version; the ids that moved.

    `tier` None: the whole content moves, and the memory stays in its tier and its indexes.
    """
    held = session.execute(query("archive_hold"), {"tenant": tenant, "keys": [put.key for put in puts]}).fetchall()
    alive = {row["key"] for row in held}
    ready = [put for put in puts if put.key in alive]
    values = {
        "tenant": tenant,
        "tier": tier,
        "ids": [put.id for put in ready],
        "versions": [put.version for put in ready],
        "keys": [put.key for put in ready],
        "sha256s": [put.sha256 for put in ready],
        "snippets": [put.snippet for put in ready],
        "content_sha256s": [put.content_sha256 for put in ready],
        "key_ids": [put.key_id for put in ready],
        "rests": [put.rests_since for put in ready],
    }
    moved = {row["id"] for row in session.execute(query("archive_commit"), values).fetchall()}
    kept = [put for put in ready if put.id in moved]
    versions = {"ids": [put.id for put in kept], "versions": [put.version for put in kept]}
    session.execute(query("archive_forget_version"), {"tenant": tenant, **versions})
    return moved


def settle(session: Session, tenant: str, versions: Mapping[str, int]) -> set[str]:
    """Archive memories at these versions whose content lies in an object already; the ids of those that did."""
    values = {"tenant": tenant, "ids": list(versions), "versions": list(versions.values())}
    return {row["id"] for row in session.execute(query("archive_settle"), values).fetchall()}


def large(session: Session, tenant: str, after: str, limit: int, least: int) -> dict[str, int]:
    """Ids and versions of memories whose row holds a content of more than `least` bytes, in order behind `after`."""
    values = {"tenant": tenant, "after": after, "limit": limit, "least": least}
    rows = session.execute(query("archive_large"), values).fetchall()
    return {row["id"]: int(row["version"]) for row in rows}


def restore(session: Session, tenant: str, contents: Mapping[str, tuple[int, str]]) -> set[str]:
    """Content back in, by id with the stub's version, where the stub is still that one; the ids that are warm again."""
    values = {
        "tenant": tenant,
        "ids": list(contents),
        "versions": [version for version, _ in contents.values()],
        "contents": [content for _, content in contents.values()],
    }
    return {row["id"] for row in session.execute(query("archive_restore"), values).fetchall()}


def stubs(session: Session, tenant: str, after: str, limit: int, place: Mapping[str, str | None]) -> list[str]:
    """Ids of archived memories behind `after`, of a session and a type if `place` names them."""
    values = {"tenant": tenant, "after": after, "limit": limit, "session": None, "type": None, **place}
    return [row["id"] for row in session.execute(query("archive_stubs"), values).fetchall()]


def objects_of(session: Session, tenant: str, ids: Sequence[str]) -> list[Object]:
    """Every announced object of some memories."""
    rows = session.execute(query("archive_objects_of"), {"tenant": tenant, "ids": list(ids)}).fetchall()
    return [Object(**row) for row in rows]


def living(session: Session, tenant: str, keys: Sequence[str]) -> set[str]:
    """Which of these objects are announced for a memory that is there."""
    rows = session.execute(query("archive_living"), {"tenant": tenant, "keys": list(keys)}).fetchall()
    return {row["key"] for row in rows}


def drop_objects(session: Session, tenant: str, keys: Sequence[str]) -> None:
    """Forget objects that are gone."""
    session.execute(query("archive_objects_drop"), {"tenant": tenant, "keys": list(keys)})


def mark_orphans(session: Session, tenant: str, grace: timedelta, limit: int) -> list[str]:
    """Mark objects no record points at, a grace time after any might have; their keys."""
    values = {"tenant": tenant, "grace": grace, "limit": limit}
    return sorted(row["key"] for row in session.execute(query("archive_sweep_mark"), values).fetchall())


def still_orphans(session: Session, tenant: str, keys: Sequence[str]) -> list[str]:
    """The second look at marked objects: those no record points at. The others' marks are taken back."""
    values = {"tenant": tenant, "keys": list(keys)}
    orphans = [row["key"] for row in session.execute(query("archive_sweep_look"), values).fetchall()]
    spared = sorted(set(keys) - set(orphans))
    if spared:
        session.execute(query("archive_sweep_spare"), {"tenant": tenant, "keys": spared})
    return orphans


def end_sweep(session: Session, tenant: str, keys: Sequence[str]) -> None:
    """Forget marked objects that are removed."""
    session.execute(query("archive_sweep_end"), {"tenant": tenant, "keys": list(keys)})


def mark_strangers(session: Session, tenant: str, keys: Mapping[str, tuple[str, int]], grace: timedelta) -> list[str]:
    """Mark objects, by key with id and version, that nobody announced and no record points at; their keys."""
    values = {
        "tenant": tenant,
        "keys": list(keys),
        "ids": [memory_id for memory_id, _ in keys.values()],
        "versions": [version for _, version in keys.values()],
        "grace": grace,
    }
    return sorted(row["key"] for row in session.execute(query("archive_sweep_strangers"), values).fetchall())
