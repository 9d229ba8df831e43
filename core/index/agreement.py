"""Whether an index generation agrees with the record: both directions, by id and version.

Two sorted streams are walked side by side in bounded memory. Writes go on meanwhile, so what disagrees is
looked at a second time by its id: a memory whose index work waits is not settled, and proves nothing.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from core.model.generation import Generation
from core.model.point import Stamp
from core.ports import VectorIndex
from core.record import memories
from core.record.database import Database

PAGE = 5_000
SECOND_LOOK = 1_000
# From so many on it is no longer a matter of single points: counting on would only take time.
MOST = 20_000


class Wanted(NamedTuple):
    """A point the record asks for."""

    point: uuid.UUID
    memory_id: str
    version: int


@dataclass(slots=True)
class Agreement:
    """What a walk found. `sample` are points both sides agree on, drawn evenly.

    missing, stale: ids whose point is not there or of another version. orphans: points the record does not want,
    with their versions. `unsettled` wait in the outbox, `set_aside` were taken out of it. `cut_short`: so much
    disagrees that the walk was ended; it is no verdict on the rest.
    """

    records: int = 0
    points: int = 0
    missing: list[str] = field(default_factory=list)
    stale: list[str] = field(default_factory=list)
    orphans: dict[uuid.UUID, int] = field(default_factory=dict)
    unsettled: int = 0
    set_aside: int = 0
    sample: list[Wanted] = field(default_factory=list)
    cut_short: bool = False

    @property
    def disagreeing(self) -> int:
        """How many points or records are not as they should be."""
        return len(self.missing) + len(self.stale) + len(self.orphans)


def agreement(
    database: Database, index: VectorIndex, generation: Generation, sample: int, chance: random.Random
) -> Agreement:
    """Compare a generation's collection with the record. Raises NotFound when the collection is not there."""
    walk = _Walk(Agreement(), sample, chance)
    found = walk.found
    suspects: list[uuid.UUID] = []
    for suspect in walk.side_by_side(_record(database, generation), index.scroll(generation.collection)):
        suspects.append(suspect)
        if len(suspects) >= SECOND_LOOK:
            _look_again(database, index, generation, suspects, found)
            suspects.clear()
            if found.disagreeing >= MOST:
                found.cut_short = True
                return found
    _look_again(database, index, generation, suspects, found)
    return found


class _Walk:
    """The merge of the two streams, and an even sample of what agrees (Vitter's algorithm R)."""

    def __init__(self, found: Agreement, sample: int, chance: random.Random) -> None:
        self.found = found
        self._size = sample
        self._chance = chance
        self._agreed = 0

    def side_by_side(self, record: Iterator[Wanted], points: Iterator[tuple[uuid.UUID, Stamp]]) -> Iterator[uuid.UUID]:
        """The points on which the two sides differ, in order."""
        wanted, point = next(record, None), next(points, None)
        while wanted is not None or point is not None:
            if point is None or (wanted is not None and wanted.point < point[0]):
                assert wanted is not None  # noqa: S101  the loop's condition
                self.found.records += 1
                yield wanted.point
                wanted = next(record, None)
            elif wanted is None or point[0] < wanted.point:
                self.found.points += 1
                yield point[0]
                point = next(points, None)
            else:
                self.found.records += 1
                self.found.points += 1
                if point[1].version == wanted.version:
                    self._draw(wanted)
                else:
                    yield wanted.point
                wanted, point = next(record, None), next(points, None)

    def _draw(self, wanted: Wanted) -> None:
        self._agreed += 1
        if len(self.found.sample) < self._size:
            self.found.sample.append(wanted)
        elif (place := self._chance.randrange(self._agreed)) < self._size:
            self.found.sample[place] = wanted


def _record(database: Database, generation: Generation) -> Iterator[Wanted]:
    """What the index should hold, in the order of points, a page a transaction."""
    after = uuid.UUID(int=0)
    while True:
        with database.tenant(generation.tenant) as session:
            page = memories.wanted_points(session, generation.tenant, after, PAGE)
        yield from (Wanted(*row) for row in page)
        if len(page) < PAGE:
            return
        after = page[-1][0]


def _look_again(
    database: Database, index: VectorIndex, generation: Generation, points: Sequence[uuid.UUID], found: Agreement
) -> None:
    """Sort what differed in passing from what differs still, with nothing on its way that would mend it."""
    if not points:
        return
    # The index first: what the record says after that is at least as new.
    stamps = index.stamps(generation.collection, points)
    with database.tenant(generation.tenant) as session:
        now = memories.standings_of_points(session, generation.tenant, generation.number, points)
    for point in points:
        stamp, standing = stamps.get(point), now.get(point)
        agrees = stamp is None if standing is None or not standing.indexed else _same(stamp, standing.version)
        if agrees:
            continue
        if standing is not None and standing.waits:
            found.set_aside += standing.aside
            found.unsettled += not standing.aside
        elif standing is None or not standing.indexed:
            if stamp is not None:
                found.orphans[point] = stamp.version
        elif stamp is None:
            found.missing.append(standing.memory_id)
        else:
            found.stale.append(standing.memory_id)


def _same(stamp: Stamp | None, version: int) -> bool:
    return stamp is not None and stamp.version == version
