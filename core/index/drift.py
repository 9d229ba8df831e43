"""Comparing an index generation with the record: both directions, by id and version, in bounded memory.

Two sorted streams are joined block by block in Polars. Writes go on meanwhile, so what differs is looked at again by
its id, record, index, record: only what the record said before and after, for the minimum age, with no work of it
waiting, is a verdict. Nothing is written to an index here: memories are handed to the outbox, points to the queue of
orphans (DESIGN.md section 8).
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from core.index.digest import WHOLE, stretch_digests
from core.model.drift import DriftRules, Kind, Span, Tally, spans_of
from core.model.generation import Generation, GenerationState
from core.model.point import Stamp
from core.ports import VectorIndex
from core.record import drift
from core.record.database import Database
from core.record.drift import PointStanding

BLOCK = 20_000
SECOND_LOOK = 1_000

Stamped = tuple[uuid.UUID, Stamp]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Compares one generation with the record. `alive` is called between blocks, and may raise."""

    database: Database
    index: VectorIndex
    generation: Generation
    rules: DriftRules
    alive: Callable[[], None] = lambda: None
    block: int = BLOCK

    def disagreeing(self, first: int, last: int) -> list[int]:
        """The stretches from `first` to `last` whose digest is not the record's. Raises NotFound, Transient.

        Where work waits they differ, too: what differs has to be walked.
        """
        (span,) = spans_of(range(first, last + 1))
        there = stretch_digests(self._checked(self.index.scroll(self.generation.collection, span.first)), span.last)
        # The record last: a difference that goes away meanwhile is found to be none by the walk.
        ours = drift.digests(self.database, self.generation.tenant)
        wanted = {one: (points, digest % WHOLE) for one, (points, digest) in ours.items() if first <= one <= last}
        return sorted(one for one in wanted.keys() | there.keys() if wanted.get(one) != there.get(one))

    def walk(self, spans: Sequence[Span], tally: Tally, seen: Callable[[Sequence[bytes]], None] | None = None) -> int:
        """Compare spans of ids point by point into the tally; how many points there were. Raises NotFound, Transient.

        `seen` is told the ids both sides agree on, as bytes, block by block.
        """
        suspects: list[uuid.UUID] = []
        points = 0
        for span in spans:
            for differing, agreeing, count in self._blocks(span):
                self.alive()
                points += count
                if seen is not None:
                    seen(agreeing)
                suspects += [uuid.UUID(bytes=one) for one in differing]
                while len(suspects) >= SECOND_LOOK:
                    self.look_again(suspects[:SECOND_LOOK], tally)
                    del suspects[:SECOND_LOOK]
        for start in range(0, len(suspects), SECOND_LOOK):
            self.look_again(suspects[start : start + SECOND_LOOK], tally)
        return points

    def look_again(self, points: Sequence[uuid.UUID], tally: Tally) -> None:
        """Sort what differed in passing from what differs still, with nothing on its way that would mend it."""
        before = self._standings(points)
        stamps = self.index.stamps(self.generation.collection, points)
        after = self._standings(points)
        for point in points:
            stamp, standing = stamps.get(point), after[point]
            if _agree(stamp, standing):
                continue
            if before[point].waits or standing.waits:
                tally.set_aside += standing.aside
                tally.unsettled += not standing.aside
            elif not standing.settled or before[point] != standing:
                tally.unsettled += 1
            else:
                self._judge(point, stamp, standing, tally)

    def _judge(self, point: uuid.UUID, stamp: Stamp | None, standing: PointStanding, tally: Tally) -> None:
        name = standing.memory_id or str(point)
        if not standing.indexed:
            assert stamp is not None  # noqa: S101  neither here nor there is agreement
            tally.remove(point, stamp.version, Kind.ORPHAN, name)
        elif stamp is None:
            # What a new generation has not been fed yet is not missing.
            if self.generation.state is not GenerationState.BUILDING:
                tally.note(Kind.MISSING, name)
        elif stamp.version < standing.version:
            tally.note(Kind.STALE, name)
        else:
            tally.remove(point, stamp.version, Kind.AHEAD, name)

    def _standings(self, points: Sequence[uuid.UUID]) -> dict[uuid.UUID, PointStanding]:
        tenant, number = self.generation.tenant, self.generation.number
        return drift.standings(self.database, tenant, number, points, self.rules.minimum_age)

    def _blocks(self, span: Span) -> Iterator[tuple[list[bytes], list[bytes], int]]:
        """Block by block: ids on which the two sides differ, ids on which they agree, and the number of points."""
        points = _Ahead(self.index.scroll(self.generation.collection, span.first))
        first, last = span.first, span.last
        while True:
            rows = drift.page(self.database, self.generation.tenant, Span(first, last), self.block)
            end = rows[-1][0] if len(rows) == self.block else last.bytes
            there = points.upto(end, self.block)
            if len(there) == self.block and there[-1][0].bytes < end:
                end = there[-1][0].bytes  # so many points at once: the rows behind them come with the next block
                rows = [row for row in rows if row[0] <= end]
            yield (*_compared(rows, there), len(there))
            if end >= last.bytes:
                return
            first = uuid.UUID(int=int.from_bytes(end, "big") + 1)

    def _checked(self, points: Iterator[Stamped]) -> Iterator[Stamped]:
        while block := list(islice(points, self.block)):
            self.alive()
            yield from block


class _Ahead:
    """A stream of points that can be read up to an id."""

    def __init__(self, points: Iterator[Stamped]) -> None:
        self._points = points
        self._next = next(points, None)

    def upto(self, end: bytes, most: int) -> list[Stamped]:
        """The next points up to and with an id, `most` of them at the most."""
        limit = uuid.UUID(bytes=end)
        taken: list[Stamped] = []
        while self._next is not None and len(taken) < most and self._next[0] <= limit:
            taken.append(self._next)
            self._next = next(self._points, None)
        return taken


def _compared(rows: Sequence[tuple[bytes, int]], there: Sequence[Stamped]) -> tuple[list[bytes], list[bytes]]:
    """Ids on which a block of each side differs, and those on which they agree."""
    import polars as pl

    wanted = {"point": [point for point, _ in rows], "wanted": [version for _, version in rows]}
    record = pl.DataFrame(wanted, schema={"point": pl.Binary, "wanted": pl.Int64})
    held = {"point": [point.bytes for point, _ in there], "held": [stamp.version for _, stamp in there]}
    index = pl.DataFrame(held, schema={"point": pl.Binary, "held": pl.Int64})
    both = record.join(index, on="point", how="full", coalesce=True)
    same = (pl.col("wanted") == pl.col("held")).fill_null(value=False)
    return both.filter(~same)["point"].sort().to_list(), both.filter(same)["point"].to_list()


def _agree(stamp: Stamp | None, standing: PointStanding) -> bool:
    if not standing.indexed:
        return stamp is None
    return stamp is not None and stamp.version == standing.version
