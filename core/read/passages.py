"""Hits with what stands around them, as passages: overlapping ones joined, in the order of their threads."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Sequence

from core.model.query import Filters, Found, Passage
from core.record import memories
from core.record.candidates import Candidate, beside, candidates
from core.record.database import Session

ARCHIVED = "archive"


def passages_of(
    session: Session, tenant: str, found: Sequence[Found], around: int, filters: Filters
) -> tuple[Passage, ...]:
    """The found, each with up to `around` memories before and after it that are alive and meet the filters.

    Best first; a hit that stands in no thread is a passage of its own.
    """
    hits = candidates(session, tenant, [one.memory.embedding_id for one in found], filters)
    near = beside(session, tenant, list(hits.values()), around)
    others = candidates(session, tenant, sorted({one.beside for one in near} - hits.keys()), filters)
    others = {point: one for point, one in others.items() if one.tier != ARCHIVED}
    records = memories.fetch_points(session, tenant, sorted(others))
    records |= {one.memory.embedding_id: one.memory for one in found}
    known = {point: one for point, one in {**others, **hits}.items() if point in records}
    stretches: dict[uuid.UUID, set[uuid.UUID]] = {point: {point} for point in hits if point in records}
    for one in near:
        if one.point in stretches and one.beside in known:
            stretches[one.point].add(one.beside)
    scores = {one.memory.embedding_id: one.score for one in found}
    passages = []
    for stretch in _joined(stretches, known):
        ordered = sorted(stretch, key=lambda point: (known[point].place or 0, known[point].id))
        inside = [point for point in ordered if point in scores]
        passages.append(
            Passage(
                memories=tuple(records[point] for point in ordered),
                hits=frozenset(records[point].id for point in inside),
                score=max(scores[point] for point in inside),
            )
        )
    return tuple(sorted(passages, key=lambda one: (-one.score, one.memories[0].id)))


def _joined(stretches: dict[uuid.UUID, set[uuid.UUID]], known: dict[uuid.UUID, Candidate]) -> list[set[uuid.UUID]]:
    """Stretches of one thread that share a memory, made one."""
    by_thread: dict[uuid.UUID, list[set[uuid.UUID]]] = defaultdict(list)
    for point, stretch in stretches.items():
        thread = known[point].thread or point  # no thread: by itself
        apart = [one for one in by_thread[thread] if one.isdisjoint(stretch)]
        touching = [one for one in by_thread[thread] if not one.isdisjoint(stretch)]
        by_thread[thread] = [*apart, set(stretch).union(*touching)]
    return [stretch for group in by_thread.values() for stretch in group]
