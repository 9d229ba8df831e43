"""Samples of a tenant's records and archived objects, from a place on, round to the beginning. No content leaves."""

from __future__ import annotations

import uuid

from core.record.database import Database, Row
from core.record.queries import query

FIRST_POINT = uuid.UUID(int=0)


def sampled_records(database: Database, tenant: str, start: uuid.UUID, limit: int) -> list[Row]:
    """Truths about up to `limit` live memories, whose points follow `start`."""
    return _round(database, "quality_records", tenant, (start, FIRST_POINT), limit, "point")


def sampled_objects(database: Database, tenant: str, start: str, limit: int) -> list[Row]:
    """Up to `limit` objects that records point at, whose keys follow `start`, with their checksums."""
    return _round(database, "quality_objects", tenant, (start, ""), limit, "key")


def _round(
    database: Database, name: str, tenant: str, starts: tuple[object, object], limit: int, key: str
) -> list[Row]:
    found: dict[object, Row] = {}
    for start in starts:
        values = {"tenant": tenant, "after": start, "limit": limit}
        with database.tenant(tenant) as session:
            rows = session.execute(query(name), values).fetchall()
        for row in rows:
            if len(found) < limit:
                found.setdefault(row[key], row)
        if len(found) >= limit:
            break
    return list(found.values())
