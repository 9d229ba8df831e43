"""What a conversation adds to the scores of its turns: neighbours, the session as a whole, and who speaks.

Everything is added to what the legs gave, so that a record that stands in no thread and has no speaker keeps the
score it has without any of this.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace

from core.model.query import Filters, Parts
from core.model.ranking import Ranking
from core.read.speakers import Naming
from core.record.candidates import Beside, Candidate, beside, candidates, thread_scores
from core.record.database import Session
from core.record.keywords import Asked

REACH = 2  # how far a hit lends: whole to the next, half to the one after
LENDERS = 50  # the best hits: what little the others could lend is not worth looking for
ARCHIVED = "archive"
ALONE = "alone"


@dataclass(frozen=True, slots=True)
class Ranked:
    """The records that may be answered, by point, and what each one's score is made of."""

    known: Mapping[uuid.UUID, Candidate]
    parts: Mapping[uuid.UUID, Parts]


def with_conversation(
    session: Session, tenant: str, hits: Ranked, asked: Asked | None, filters: Filters, ranking: Ranking, text: str
) -> Ranked:
    """The hits, and what stands beside them, with what their conversations add."""
    known, parts = dict(hits.known), dict(hits.parts)
    if ranking.neighbours > 0:
        lenders = sorted(
            (one for one in known.values() if one.tier != ARCHIVED),
            key=lambda one: (-parts[one.point].merged, one.point),
        )[:LENDERS]
        near = beside(session, tenant, lenders, REACH)
        found = candidates(session, tenant, sorted({one.beside for one in near} - known.keys()), filters)
        known |= {point: one for point, one in found.items() if one.tier != ARCHIVED}
        for point, share in lent(near, {one.point: parts[one.point].merged for one in lenders}).items():
            if point in known and known[point].tier != ARCHIVED:
                strength = ranking.neighbours * _part(known[point], ranking)
                parts[point] = replace(parts.get(point, Parts()), neighbours=strength * share)
        known = {point: one for point, one in known.items() if point in parts}
    if ranking.session > 0 and asked is not None:
        threads = {one.thread for one in known.values() if one.thread is not None}
        scores = thread_scores(session, tenant, asked, sorted(threads), filters)
        best = max(scores.values(), default=0.0)
        for point, one in known.items():
            if best > 0 and one.thread in scores:
                strength = ranking.session * _part(one, ranking)
                parts[point] = replace(parts[point], session=strength * scores[one.thread] / best)
    if ranking.speaker > 0:
        named = Naming(text).named({one.speaker for one in known.values()})
        for point, one in known.items():
            if one.speaker in named:
                parts[point] = replace(parts[point], speaker=ranking.speaker)
    return Ranked(known, _fair(known, parts))


def _fair(known: Mapping[uuid.UUID, Candidate], parts: Mapping[uuid.UUID, Parts]) -> dict[uuid.UUID, Parts]:
    """The parts, scaled so that the best turn is worth what the best turn was without any gain; and so for notes.

    Else every turn would overtake what stands alone, merely for having neighbours.
    """
    kinds: dict[str, list[uuid.UUID]] = defaultdict(list)
    for point, one in known.items():
        kinds[_kind(one)].append(point)
    scaled = dict(parts)
    for kind, points in kinds.items():
        before = max(parts[point].merged for point in points)
        after = max(parts[point].total for point in points)
        if kind != ALONE and 0 < before < after:
            scaled |= {point: replace(parts[point], scale=before / after) for point in points}
    return scaled


def _kind(known: Candidate) -> str:
    if known.thread is not None:
        return "turn" if known.is_turn else "chunk"
    return ALONE if known.speaker is None else "said"


def _part(known: Candidate, ranking: Ranking) -> float:
    """How much of its strengths a ranking gives a record: turns all, chunks of notes what they are said to."""
    return 1.0 if known.is_turn else ranking.notes


def lent(near: list[Beside], merged: Mapping[uuid.UUID, float]) -> dict[uuid.UUID, float]:
    """What each point is lent by those it stands beside: their merged scores, half of it from the one after next."""
    shares: dict[uuid.UUID, float] = defaultdict(float)
    # In an order of its own: floats added in another give another sum.
    for one in sorted(near, key=lambda one: (one.beside, one.point)):
        shares[one.beside] += merged[one.point] / abs(one.distance)
    return dict(shares)
