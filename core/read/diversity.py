"""Maximal marginal relevance (Carbonell and Goldstein, 1998): what repeats a better answer counts less. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from core.model.point import Vector


def diverse(scores: Sequence[float], vectors: Sequence[Vector | None], balance: float, limit: int) -> list[int]:
    """Which of the scored to take, in order, at most `limit`: λ · score − (1 − λ) · nearness to what was taken.

    `vectors` are of length one; a record without one is near to nothing. Scores count by the best of
    them. Time grows with limit × candidates.
    """
    count = len(scores)
    best = max(scores, default=0.0)
    if balance >= 1 or count < 2 or best <= 0:
        return sorted(range(count), key=lambda index: -scores[index])[:limit]
    width = next((len(vector) for vector in vectors if vector is not None), 1)
    rows = np.zeros((count, width), dtype=np.float32)
    for index, vector in enumerate(vectors):
        if vector is not None:
            rows[index] = vector
    relevance = np.asarray(scores, dtype=np.float64) / best
    nearest = np.zeros(count)
    left = np.ones(count, dtype=bool)
    taken: list[int] = []
    while len(taken) < min(limit, count):
        worth = np.where(left, balance * relevance - (1 - balance) * nearest, -np.inf)
        index = int(np.argmax(worth))
        taken.append(index)
        left[index] = False
        np.maximum(nearest, rows @ rows[index], out=nearest)
    return taken
