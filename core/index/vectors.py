"""From texts to vectors that may be stored: batching by the embedder's limit, checking, and taking bad items out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from core.errors import BadAnswer, Permanent, Refused
from core.model.point import Vector
from core.ports import Embedder, TextKind


@dataclass(slots=True)
class Embedded:
    """Vectors by key, and the reason for each text that has none. Every key is in exactly one of the two."""

    vectors: dict[str, Vector] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)


def embed_all(embedder: Embedder, texts: Mapping[str, str]) -> Embedded:
    """Vectors of document texts, by key, in calls of at most the embedder's limit of items.

    A text the provider refuses, or answers with an unusable vector, is taken out and the rest goes on.
    Raises BadAnswer when an answer as a whole cannot be used (count, shape): then nothing of that
    call is kept, and whatever else the embedder raises (Transient, Misconfigured).
    """
    result = Embedded()
    keys = list(texts)
    for start in range(0, len(keys), embedder.limits.items):
        _embed_some(embedder, {key: texts[key] for key in keys[start : start + embedder.limits.items]}, result)
    return result


def _embed_some(embedder: Embedder, texts: dict[str, str], result: Embedded) -> None:
    """One call, repeated on ever smaller parts while items are refused: at most 2·n calls for n bad items."""
    pending = [texts]
    while pending:
        part = pending.pop()
        keys = list(part)
        try:
            vectors = checked(embedder, list(part.values()), "document")
        except (BadAnswer, Refused) as problem:
            pending.extend(_without_the_culprit(keys, part, problem, result))
        else:
            result.vectors.update(zip(keys, vectors, strict=True))


def _without_the_culprit(
    keys: list[str], part: dict[str, str], problem: Permanent, result: Embedded
) -> list[dict[str, str]]:
    """What is left to try: all but the named item, or two halves when none is named."""
    index = problem.details.get("index")
    if isinstance(problem, BadAnswer) and index is None:
        raise problem
    if index is None and len(keys) == 1:
        index = 0
    if index is not None:
        culprit = keys.pop(int(index))
        result.refused[culprit] = problem.message
        return [{key: part[key] for key in keys}] if keys else []
    middle = len(keys) // 2
    return [{key: part[key] for key in half} for half in (keys[middle:], keys[:middle])]


def checked(embedder: Embedder, texts: list[str], kind: TextKind) -> Vector:
    """One call to the embedder whose answer has the right count and width and is finite and non-zero.

    Raises BadAnswer otherwise; with `index` in its details when a single row is to blame.
    """
    answer = embedder.embed(texts, kind)
    vectors = np.asarray(answer.vectors, dtype=np.float32)
    expected = (len(texts), embedder.space.dimensions)
    if vectors.shape != expected:
        raise BadAnswer(f"the embedder answered {vectors.shape} where {expected} was due")
    usable = np.isfinite(vectors).all(axis=1) & np.any(vectors != 0, axis=1)
    if not usable.all():
        raise BadAnswer("the embedder gave no usable vector for a text", index=int(np.argmin(usable)))
    return vectors
