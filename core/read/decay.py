"""What is old counts less, if the ranking says so. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

from core.model.ranking import Ranking

PINNED = "pinned"


class Dated(Protocol):
    """What decides how fast a record ages."""

    @property
    def type(self) -> str:
        """Its type."""

    @property
    def tags(self) -> tuple[str, ...]:
        """Its tags: `pinned` keeps it young."""

    @property
    def created_at(self) -> datetime:
        """Since when it stands."""


def decayed(record: Dated, ranking: Ranking, now: datetime) -> float:
    """What a score is multiplied by for the record's age: half after each half-life, never below the floor.

    Evergreen types and what is tagged `pinned` do not age, and a record from the future gains nothing.
    """
    half_life = ranking.decay_half_life
    if half_life is None or record.type in ranking.evergreen or PINNED in record.tags:
        return 1.0
    age = max(0.0, (now - record.created_at).total_seconds())
    kept: float = 0.5 ** (age / half_life.total_seconds())
    return ranking.decay_floor + (1 - ranking.decay_floor) * kept
