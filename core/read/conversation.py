"""What a conversation adds to the scores of its turns: neighbours, the session as a whole, and who speaks.

Everything is added to what the legs gave, so that a record that stands in no thread and has no speaker keeps the
score it has without any of this.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from core.model.query import Filters, Parts
from core.model.ranking import Ranking
from core.read.speakers import Naming
from core.record.candidates import Beside, Candidate, beside, candidates, thread_scores
from core.record.database import Session
from core.record.keywords import Asked

REACH = 2  # how far a hit lends: whole to the next, half to the one after
# How many of the best hits lend, by how many answers are asked for: what the others could is not worth looking for.
FEWEST_LENDERS, LENDERS_AN_ANSWER, MOST_LENDERS = 20, 2, 50
ARCHIVED = "archive"
ALONE = "alone"
NOTHING = Parts()


@dataclass(frozen=True, slots=True)
class Ranked:
    """The records that may be answered, by point, and what each one's score is made of; how many are asked for."""

    known: Mapping[uuid.UUID, Candidate]
    parts: Mapping[uuid.UUID, Parts]
    limit: int

    @property
    def lenders(self) -> int:
        """How many of them lend to what stands beside them."""
        return max(FEWEST_LENDERS, min(LENDERS_AN_ANSWER * self.limit, MOST_LENDERS))


@dataclass(slots=True)
class _Gain:
    """What a record's conversation adds to its score. Plain numbers: a search has hundreds of them."""

    known: Candidate
    parts: Parts
    merged: float
    neighbours: float = 0.0
    session: float = 0.0
    speaker: float = 0.0

    @property
    def total(self) -> float:
        """The score with all that is added, in the order `Parts.total` adds it."""
        return self.merged + self.neighbours + self.session + self.speaker


Gains = dict[uuid.UUID, _Gain]


def with_conversation(
    session: Session, tenant: str, hits: Ranked, asked: Asked | None, filters: Filters, ranking: Ranking, text: str
) -> Ranked:
    """The hits, and what stands beside them, with what their conversations add."""
    gains = {point: _Gain(hits.known[point], one, one.merged) for point, one in hits.parts.items()}
    if ranking.neighbours > 0:
        _neighbours(session, tenant, gains, filters, ranking, hits.lenders)
    if ranking.session > 0 and asked is not None:
        threads = {one.known.thread for one in gains.values() if one.known.thread is not None}
        scores = thread_scores(session, tenant, asked, sorted(threads), filters)
        best = max(scores.values(), default=0.0)
        for one in gains.values() if best > 0 else ():
            if one.known.thread in scores:
                strength = ranking.session * _part(one.known, ranking)
                one.session = strength * scores[one.known.thread] / best
    if ranking.speaker > 0:
        named = Naming(text).named({one.known.speaker for one in gains.values()})
        for one in gains.values() if named else ():
            one.speaker = ranking.speaker * (one.known.speaker in named)
    known = {point: one.known for point, one in gains.items()}
    return Ranked(known, _parts(gains), hits.limit)


def _neighbours(session: Session, tenant: str, gains: Gains, filters: Filters, ranking: Ranking, most: int) -> None:
    """Note what the best hits lend, also to those that enter that way."""
    lenders = sorted(
        (one for one in gains.values() if one.known.tier != ARCHIVED), key=lambda one: (-one.merged, one.known.point)
    )[:most]
    near = beside(session, tenant, [one.known for one in lenders], REACH)
    shares = lent(near, {one.known.point: one.merged for one in lenders})
    entered = candidates(session, tenant, [point for point in shares if point not in gains], filters)
    gains |= {point: _Gain(one, NOTHING, 0.0) for point, one in entered.items() if one.tier != ARCHIVED}
    for point, share in shares.items():
        one = gains.get(point)
        if one is not None and one.known.tier != ARCHIVED:
            one.neighbours = ranking.neighbours * _part(one.known, ranking) * share


def _parts(gains: Gains) -> dict[uuid.UUID, Parts]:
    """The parts, scaled so that the best turn is worth what the best turn was without any gain; and so for notes.

    Else every turn would overtake what stands alone, merely for having neighbours.
    """
    kinds: dict[str, list[_Gain]] = defaultdict(list)
    for one in gains.values():
        kinds[_kind(one.known)].append(one)
    scales: dict[str, float] = {}
    for kind, members in kinds.items():
        before = max(one.merged for one in members)
        after = max(one.total for one in members)
        scales[kind] = before / after if kind != ALONE and 0 < before < after else 1.0
    return {point: _explained(one, scales[_kind(one.known)]) for point, one in gains.items()}


def _explained(one: _Gain, scale: float) -> Parts:
    if scale == 1 and one.total == one.merged:
        return one.parts
    return Parts(
        cosine=one.parts.cosine,
        bm25=one.parts.bm25,
        vector=one.parts.vector,
        keyword=one.parts.keyword,
        decay=one.parts.decay,
        neighbours=one.neighbours,
        session=one.session,
        speaker=one.speaker,
        scale=scale,
    )


def _kind(known: Candidate) -> str:
    if known.thread is not None:
        return "turn" if known.is_turn else "chunk"
    return ALONE if known.speaker is None else "said"


def _part(known: Candidate, ranking: Ranking) -> float:
    """How much of its strengths a ranking gives a record: turns all, chunks of notes what they are said to."""
    return 1.0 if known.is_turn else ranking.notes


def lent(near: Sequence[Beside], merged: Mapping[uuid.UUID, float]) -> dict[uuid.UUID, float]:
    """What each point is lent by those it stands beside: their merged scores, half of it from the one after next."""
    shares: dict[uuid.UUID, float] = defaultdict(float)
    for one in near:  # in an order of its own: floats added in another give another sum
        shares[one.beside] += merged[one.point] / abs(one.distance)
    return dict(shares)
