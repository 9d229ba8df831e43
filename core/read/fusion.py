"""Merging the two legs into one score a hit. Pure."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass

from core.model.query import Parts
from core.model.ranking import Ranking

# Reciprocal rank fusion (Cormack, Clarke and Büttcher, 2009), with the constant of that paper.
RANK_CONSTANT = 60
# A vector score of the pool's scale is zero at the hit of this rank, however many were asked for.
SCALE = 40

Scores = Mapping[uuid.UUID, float]


@dataclass(frozen=True, slots=True)
class Pool:
    """The hits of each leg that are still to be judged; None: the leg did not run, and weighs nothing."""

    cosines: Scores | None
    bm25: Scores | None


def merged(pool: Pool, ranking: Ranking) -> dict[uuid.UUID, Parts]:
    """Each hit with what its legs add: weights sum to one over the legs that ran.

    A keyword score counts by the best of its pool, a vector score by the first and fortieth of its pool or
    as a cosine; with `fusion` "rank" both count by their ranks alone, the best one whole.
    """
    weights = _weights(pool, ranking)
    cosines, bm25 = pool.cosines or {}, pool.bm25 or {}
    if ranking.fusion == "rank":
        vector, keyword = _by_rank(cosines), _by_rank(bm25)
    else:
        vector = _by_pool(cosines) if ranking.scale == "pool" else _as_cosine(cosines)
        keyword = _by_best(bm25)
    return {
        point: Parts(
            cosine=cosines.get(point),
            bm25=bm25.get(point),
            vector=weights[0] * vector.get(point, 0.0),
            keyword=weights[1] * keyword.get(point, 0.0),
        )
        for point in {**cosines, **bm25}
    }


def stands(parts: Parts, best_bm25: float, ranking: Ranking) -> bool:
    """Whether a hit is good enough. One of the keyword leg alone is judged on that leg's own scale."""
    if parts.cosine is None and parts.bm25 is not None:
        return parts.bm25 >= ranking.keyword_threshold * best_bm25
    return parts.total >= ranking.threshold


def _weights(pool: Pool, ranking: Ranking) -> tuple[float, float]:
    vector = 0.0 if pool.cosines is None else ranking.vector
    keyword = 0.0 if pool.bm25 is None else ranking.keyword
    if vector + keyword == 0:  # the one leg that ran is the one that was to weigh nothing
        return (float(pool.cosines is not None), float(pool.bm25 is not None))
    return vector / (vector + keyword), keyword / (vector + keyword)


def _by_rank(scores: Scores) -> dict[uuid.UUID, float]:
    ordered = sorted(scores, key=lambda point: (-scores[point], point))
    return {point: (RANK_CONSTANT + 1) / (RANK_CONSTANT + rank) for rank, point in enumerate(ordered, start=1)}


def _by_pool(scores: Scores) -> dict[uuid.UUID, float]:
    if not scores:
        return {}
    ordered = sorted(scores.values(), reverse=True)
    best, worst = ordered[0], ordered[:SCALE][-1]
    if best <= worst:
        return {point: float(score >= worst) for point, score in scores.items()}
    return {point: max(0.0, (score - worst) / (best - worst)) for point, score in scores.items()}


def _as_cosine(scores: Scores) -> dict[uuid.UUID, float]:
    return {point: min(1.0, max(0.0, score)) for point, score in scores.items()}


def _by_best(scores: Scores) -> dict[uuid.UUID, float]:
    best = max(scores.values(), default=0.0)
    return {point: score / best for point, score in scores.items()} if best > 0 else dict.fromkeys(scores, 0.0)
