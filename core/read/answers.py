"""Answers kept for a moment: points and scores only. What is answered from them is read anew from the record."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta

from core.model.generation import Generation
from core.model.query import Filters, Parts
from core.model.ranking import Ranking
from core.model.space import text_hash
from core.ports import Cache
from core.read.rates import Rates


@dataclass(frozen=True, slots=True)
class KeptAnswer:
    """The points of an answer, best first, with what their scores are made of; and the tenant's last change then."""

    change: int | None
    points: tuple[uuid.UUID, ...]
    scores: tuple[float, ...]
    parts: tuple[Parts, ...]


class Answers:
    """A cache of answers. Keyed by tenant, generation, question and everything that ranks; `keep` of zero: off."""

    def __init__(self, cache: Cache, keep: timedelta, rates: Rates) -> None:
        self._cache = cache
        self._keep = keep
        self._rates = rates

    @property
    def on(self) -> bool:
        """Whether answers are kept at all."""
        return self._keep > timedelta(0)

    def get(self, key: str, change: int | None) -> KeptAnswer | None:
        """What was answered, if nothing of the tenant has changed since."""
        kept = _read(self._cache.get(key))
        found = kept if kept is not None and kept.change == change else None
        self._rates.count("answers", hit=found is not None)
        return found

    def put(self, key: str, answer: KeptAnswer) -> None:
        """Keep an answer for a moment."""
        fields = [str(point) for point in answer.points], answer.scores, [asdict(one) for one in answer.parts]
        self._cache.put(key, json.dumps([answer.change, *fields]).encode(), self._keep)


def key_of(generation: Generation, text: str, hash_key: bytes, asked: Sequence[object]) -> str:
    """The key of an answer. The question is in it as a keyed hash only."""
    said = json.dumps([_plain(one) for one in asked], sort_keys=True, default=str)
    rest = hashlib.blake2b(said.encode(), digest_size=16).hexdigest()
    return f"answer:{generation.collection}:{text_hash(text, hash_key)}:{rest}"


def _plain(value: object) -> object:
    return asdict(value) if isinstance(value, Filters | Ranking) else value


def _read(kept: bytes | None) -> KeptAnswer | None:
    if kept is None:
        return None
    try:
        change, points, scores, parts = json.loads(kept)
        made = tuple(Parts(**one) for one in parts)
        return KeptAnswer(change, tuple(map(uuid.UUID, points)), tuple(scores), made)
    except (ValueError, TypeError):  # of another release
        return None
