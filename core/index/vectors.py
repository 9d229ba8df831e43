"""From texts to vectors that may be stored: packing, checking, and taking bad items out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from core.errors import BadAnswer, EngineError, Permanent, Refused
from core.index.packing import LearnedLimits, Size, packs, size_of
from core.model.point import Vector
from core.ports import Embedder, Embeddings, TextKind


@dataclass(slots=True)
class Embedded:
    """Vectors by key, the reason for each text that can have none, and what ended the work before the rest.

    Every key is in `vectors`, in `refused`, or in neither because of `problem`: what was paid for before is
    kept. `requests` were sent, refused ones too, and the provider counted `tokens`.
    """

    vectors: dict[str, Vector] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    problem: EngineError | None = None
    requests: int = 0
    tokens: int = 0


def embed_all(embedder: Embedder, texts: Mapping[str, str], learned: LearnedLimits) -> Embedded:
    """Vectors of document texts, by key, in requests within the embedder's limits and what was learned of them.

    A text the provider refuses, or answers with an unusable vector, is taken out and the rest goes on; a
    request that is too big is halved, and that is remembered. `problem` is a BadAnswer when an answer as a
    whole cannot be used (count, shape), of which nothing is kept, or whatever else the embedder raised
    (Transient, Misconfigured).
    """
    result = Embedded()
    endpoint, named = embedder.space.fingerprint, embedder.limits
    # A stack, the first request on top. Ever smaller parts of it are tried while items are refused: at most
    # 2·n requests for n bad items.
    packed_for = learned.of(endpoint, named)
    pending = [_Part(pack) for pack in packs(texts, packed_for)][::-1]
    while pending and result.problem is None:
        part = pending.pop()
        limits = learned.of(endpoint, named)
        if limits != packed_for and len(part.texts) > 1 and not size_of(part.texts).fits(limits):
            pending.extend([_Part(pack) for pack in packs(part.texts, limits)][::-1])
            continue
        result.requests += 1
        try:
            answer = checked(embedder, list(part.texts.values()), "document")
        except (BadAnswer, Refused) as problem:
            pending.extend(_without_the_culprit(part, problem, result))
        except EngineError as problem:
            result.problem = problem
        else:
            result.tokens += answer.tokens
            result.vectors.update(zip(part.texts, answer.vectors, strict=True))
            if part.halved is not None and part.halved.both_taken():
                learned.refused(endpoint, named, part.halved.size)
    return result


@dataclass(slots=True)
class _Halved:
    """A request that was refused for its size. Only if both its halves are taken was it too big as a whole.

    If one of them is refused again, a single text may be to blame, which says nothing of the provider's limits.
    """

    size: Size
    taken: int = 0

    def both_taken(self) -> bool:
        """Note that one more half was taken."""
        self.taken += 1
        return self.taken == 2


@dataclass(frozen=True, slots=True)
class _Part:
    """Texts of one request, and the refused request they are a half of."""

    texts: dict[str, str]
    halved: _Halved | None = None


def _without_the_culprit(part: _Part, problem: Permanent, result: Embedded) -> list[_Part]:
    """What is left to try: all but the named item, or two halves when none is named."""
    keys = list(part.texts)
    index = problem.details.get("index")
    if isinstance(problem, BadAnswer) and index is None:
        result.problem = problem
        return []
    if index is None and len(keys) == 1:
        index = 0
    if index is not None:
        culprit = keys.pop(int(index))
        result.refused[culprit] = problem.message
        return [_Part({key: part.texts[key] for key in keys})] if keys else []
    middle = len(keys) // 2
    halved = _Halved(size_of(part.texts)) if problem.details.get("reason") == "size" else None
    return [_Part({key: part.texts[key] for key in half}, halved) for half in (keys[middle:], keys[:middle])]


def checked(embedder: Embedder, texts: list[str], kind: TextKind) -> Embeddings:
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
    return Embeddings(vectors, answer.tokens)
