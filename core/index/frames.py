"""Frames for the quality gates: what a sample of records, points and objects looks like. Bounded, and no content."""

from __future__ import annotations

import hashlib
import random
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np

from core.errors import NotFound
from core.index.snapshots.shelf import Shelf, folders, numbers
from core.model.generation import Generation, GenerationState
from core.model.memory import embedding_id
from core.model.names import index_group, parse_archive_key
from core.model.point import Vector
from core.model.reindex import GATE_CHECKS, GateVerdict
from core.ports import BlobStore, VectorIndex
from core.record import memories
from core.record.database import Database
from core.record.generations import generations
from core.record.sampling import sampled_objects, sampled_records

MONTHS = 36
OBJECTS_AT_ONCE = 50
Rows = list[dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """Where samples come from, and how large they are for one tenant."""

    database: Database
    index: VectorIndex
    blobs: BlobStore
    limit: int
    chance: random.Random
    now: datetime

    def imported(self, tenant: str) -> Rows:
        """Records as they were imported or written."""
        start = uuid.UUID(int=self.chance.getrandbits(128))
        return [
            {
                **row,
                "tenant": tenant,
                "point": str(row["point"]),
                "point_is_its_own": row["point"] == embedding_id(tenant, row["id"]),
            }
            for row in sampled_records(self.database, tenant, start, self.limit)
        ]

    def embedded(self, tenant: str, generation: Generation | None = None) -> Rows:
        """Points of a generation (the live one) as their records want them; what still waits proves nothing."""
        chosen = generation or self._live(tenant)
        if chosen is None:
            return []
        start = uuid.UUID(int=self.chance.getrandbits(128))
        sample = [row["point"] for row in sampled_records(self.database, tenant, start, self.limit)]
        try:
            vectors = self.index.vectors(chosen.collection, sample)
            payloads = self.index.payloads(chosen.collection, sample)
        except NotFound:
            vectors, payloads = {}, {}
        with self.database.tenant(tenant) as session:  # after the index: what it says is at least as new
            now = memories.standings_of_points(session, tenant, chosen.number, sample)
        return [
            _point_row(tenant, point, one, (vectors.get(point), payloads.get(point)), chosen.space.dimensions)
            for point, one in now.items()
            if one.indexed and not one.waits
        ]

    def archived(self, tenant: str) -> Rows:
        """Objects of archived memories beside their stubs, and the newest snapshots beside their manifests."""
        return [*self._objects(tenant), *self._snapshots(tenant)]

    def _live(self, tenant: str) -> Generation | None:
        with self.database.tenant(tenant) as session:
            found = [one for one in generations(session, tenant) if one.state is GenerationState.LIVE]
        return found[0] if found else None

    def _objects(self, tenant: str) -> Iterator[dict[str, Any]]:
        back = self.chance.randrange(MONTHS)
        month = self.now.year * 12 + self.now.month - 1 - back
        start = f"{index_group(tenant)}/{month // 12:04}/{month % 12 + 1:02}/"
        sample = sampled_objects(self.database, tenant, start, self.limit)
        for first in range(0, len(sample), OBJECTS_AT_ONCE):
            piece = sample[first : first + OBJECTS_AT_ONCE]
            there = self.blobs.get_many([row["key"] for row in piece])
            for row in piece:
                data = there.get(row["key"])
                digest = None if data is None else hashlib.sha256(data).hexdigest()
                named = parse_archive_key(row["key"])
                yield {
                    "tenant": tenant,
                    "id": row["id"],
                    "kind": "object",
                    "key": row["key"],
                    "is_there": data is not None,
                    "is_as_written": digest == row["sha256"],
                    "name_agrees": named is not None and named[:2] == (tenant, row["id"]),
                }

    def _snapshots(self, tenant: str) -> Iterator[dict[str, Any]]:
        for folder, objects in folders(self.blobs, tenant).items():
            if not numbers(objects):
                continue  # being written: what has no manifest is no snapshot
            shelf = Shelf(self.blobs, folder)
            newest = shelf.newest(objects)
            yield {
                "tenant": tenant,
                "id": folder,
                "kind": "snapshot",
                "key": folder,
                "is_there": newest is not None,
                "is_as_written": not shelf.damaged,
                "name_agrees": folder.startswith(f"{index_group(tenant)}/"),
            }


def verdict_rows(tenant: str, verdict: GateVerdict | None) -> Rows:
    """The gate's checks of a generation, those that were not made among them."""
    made = {} if verdict is None else {check.name: check for check in verdict.checks}
    return [
        {
            "tenant": tenant,
            "id": name,
            "was_made": name in made,
            "passed": name in made and made[name].passed,
        }
        for name in sorted(GATE_CHECKS | made.keys())
    ]


def _point_row(
    tenant: str,
    point: uuid.UUID,
    standing: memories.PointStanding,
    stored: tuple[Vector | None, Any],
    width: int,
) -> dict[str, Any]:
    vector, payload = stored
    length = 0.0 if vector is None else float(np.linalg.norm(vector.astype(np.float64)))
    fields = payload or {}
    return {
        "tenant": tenant,
        "id": standing.memory_id,
        "point": str(point),
        "is_there": vector is not None,
        "version_agrees": fields.get("version") == standing.version,
        "width_agrees": vector is not None and vector.shape == (width,),
        "is_finite": vector is not None and bool(np.isfinite(vector).all()),
        "length": length if np.isfinite(length) else -1.0,
        "payload_is_its_own": (fields.get("tenant"), fields.get("id")) == (tenant, standing.memory_id),
    }
