"""Whether points say and are what the record would have them be: their payloads, and the health of their vectors.

The payload is compared field by field with what the record gives, but for the hash of the text, which is compared
where the text is read (`texts`). A vector has to be of the width of its generation's space, finite, and of length one.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence

import numpy as np

from core.index.drift import Comparison
from core.model.drift import Kind, Tally
from core.model.memory import embedding_id
from core.model.point import Indexable, Vector, payload_of, same_fields
from core.model.space import text_hash
from core.record import drift, memories

AT_ONCE = 500
IN_PASSING = 5_000
LENGTH_OFF = 1e-3


def look_at(comparison: Comparison, points: Sequence[uuid.UUID], tally: Tally, *, texts: bool) -> None:
    """Look at points whose version is right; what changes meanwhile proves nothing. Raises NotFound, Transient."""
    for start in range(0, len(points), AT_ONCE):
        comparison.alive()
        _look_at(comparison, points[start : start + AT_ONCE], tally, texts=texts)


def look_over(comparison: Comparison, points: Sequence[uuid.UUID], tally: Tally) -> None:
    """Look at the payloads of many points: in passing, and again at those that differ then."""
    index, generation = comparison.index, comparison.generation
    suspects: list[uuid.UUID] = []
    for start in range(0, len(points), IN_PASSING):
        comparison.alive()
        some = points[start : start + IN_PASSING]
        stored = index.payloads(generation.collection, some)
        with comparison.database.tenant(generation.tenant) as session:
            records = drift.bare(session, generation.tenant, some)
        suspects += [
            point
            for point, record in records.items()
            if (fields := stored.get(point)) is not None
            and not same_fields(fields, payload_of(record, str(fields.get("text_hash"))).fields)
        ]
    look_at(comparison, suspects, tally, texts=False)


def _look_at(comparison: Comparison, points: Sequence[uuid.UUID], tally: Tally, *, texts: bool) -> None:
    index, generation = comparison.index, comparison.generation
    before = _settled(comparison, points)
    stored = index.payloads(generation.collection, list(before))
    vectors = index.vectors(generation.collection, list(before)) if texts else {}
    wanted, hashes = _wanted(comparison, before, texts=texts)
    after = _settled(comparison, list(before))
    for point, version in before.items():
        fields, record = stored.get(point), wanted.get(point)
        steady = after.get(point) == version and record is not None and record.version == version
        if fields is None or record is None or not steady or fields.get("version") != version:
            continue
        right = payload_of(record, hashes.get(point, str(fields.get("text_hash")))).fields
        same = same_fields(fields, right)
        if texts and not _healthy(vectors.get(point), generation.space.dimensions):
            tally.remove(point, version, Kind.VECTOR, record.id)
        elif not same and fields.get("text_hash") == right["text_hash"]:
            tally.note(Kind.PAYLOAD, record.id)
        elif not same:
            # Another text's hash: another text's vector, or one of another space.
            tally.remove(point, version, Kind.VECTOR, record.id)


def _settled(comparison: Comparison, points: Sequence[uuid.UUID]) -> dict[uuid.UUID, int]:
    """Versions of those that have been as they are for the minimum age, with no work waiting."""
    generation = comparison.generation
    age = comparison.rules.minimum_age
    found = drift.standings(comparison.database, generation.tenant, generation.number, points, age)
    return {point: one.version for point, one in found.items() if one.indexed and one.settled and not one.waits}


def _wanted(
    comparison: Comparison, points: dict[uuid.UUID, int], *, texts: bool
) -> tuple[dict[uuid.UUID, Indexable], dict[uuid.UUID, str]]:
    """What payloads are made of; and, where texts are read, the hashes of what is embedded."""
    tenant, space = comparison.generation.tenant, comparison.generation.space
    with comparison.database.tenant(tenant) as session:
        records = drift.bare(session, tenant, list(points))
        if not texts:
            return records, {}
        key = memories.keys(session).hash_key
        whole, _ = memories.fetch_to_index(session, tenant, [one.id for one in records.values()])
    found = {embedding_id(tenant, one.id): one for one in whole.values()}
    hashes = {point: text_hash(space.document_text(one.title, one.content), key) for point, one in found.items()}
    return dict(found), hashes


def _healthy(vector: Vector | None, width: int) -> bool:
    if vector is None or vector.shape != (width,) or not bool(np.isfinite(vector).all()):
        return False
    return abs(float(np.linalg.norm(vector)) - 1) <= LENGTH_OFF
