"""Taking a snapshot: bucket by bucket, what the index holds now is compared with what is kept, and the rest is added.

Only points whose memory is alive are kept. A kept row whose point is missing from the index stays as long as its
memory lives: a damaged index must not take its own way back with it.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, islice

import numpy as np

from core.index.snapshots.parquet import UNKNOWN, Keys, Rows, merged
from core.index.snapshots.shelf import Shelf
from core.model.generation import Generation
from core.model.point import Stamp
from core.model.snapshot import OVERFULL, Manifest, Part, SnapshotRules, bits_for, bucket_of, first_of, needs_rewrite
from core.ports import VectorIndex
from core.record.database import Database
from core.record.kept import Keys as RecordKeys
from core.record.kept import PointRecord, of_points

SLICE = 1000
Known = dict[bytes, tuple[int, bytes, int]]
"""By point id: version, text hash, and the place of the part that holds the row."""


@dataclass(slots=True, kw_only=True)
class Written:
    """What one pass, or a portion of one, did.

    `rows` were written in `parts` of `bytes`; `unchanged` ones were there; `dropped` ones left because their
    memory is gone; `moving` ones changed while they were read and are left to the next run.
    """

    rows: int = 0
    parts: int = 0
    bytes: int = 0
    unchanged: int = 0
    dropped: int = 0
    moving: int = 0
    rewritten: int = 0
    loss: float = 0.0


@dataclass(slots=True)
class Pass:
    """One portion of a snapshot of one generation. `alive` is called between steps and may raise."""

    database: Database
    index: VectorIndex
    shelf: Shelf
    generation: Generation
    rules: SnapshotRules
    keys: RecordKeys
    new_id: Callable[[], uuid.UUID]
    alive: Callable[[], None]
    written: Written = field(default_factory=Written)

    def run(self, base: Manifest | None, number: int) -> Manifest | None:
        """Go on from `base` until about a portion of rows is written; the manifest to put, or None: nothing changed.

        Raises NotFound when the generation has no collection.
        """
        start = self._start(base, number)
        parts, cursor, changed = start.parts, start.cursor, base is None or start.bits != base.bits
        for bucket, stamps in self._buckets(start):
            cursor = bucket + 1
            fresh = self._bucket(bucket, start, stamps)
            if fresh is not None:
                ours = [part for part in parts if (part.bits, part.bucket) == (start.bits, bucket)]
                parts = (*(part for part in parts if part not in ours), *fresh)
                changed = True
            if self.written.rows >= self.rules.portion:
                break
        if cursor is not None and cursor >= 1 << start.bits:
            # The pass is over: what was cut by other bits has been written anew.
            cursor, parts = None, tuple(part for part in parts if part.bits == start.bits)
        if not changed and cursor == (None if base is None else base.cursor):
            return None
        return replace(start, parts=parts, cursor=cursor)

    def _start(self, base: Manifest | None, number: int) -> Manifest:
        space, keys = self.generation.space, self.keys
        if base is not None and base.cursor is not None:
            bits = base.bits  # the pass goes on
        else:
            count, room = self.index.count(self.generation.collection), self.rules.rows_a_part(space.dimensions)
            bits = bits_for(count, room)
            if base is not None and (bits < base.bits or count <= OVERFULL * room << base.bits):
                bits = base.bits  # never fewer: an index that lost its points is no reason
        return Manifest(
            tenant=self.generation.tenant,
            generation=self.generation.number,
            number=number,
            fingerprint=space.fingerprint,
            space=space.as_dict(),
            hash_check=keys.hash_check,
            epoch=keys.epoch,
            taken_at=keys.moment,
            bits=bits,
            cursor=0 if base is None or base.cursor is None else base.cursor,
            parts=() if base is None else base.parts,
        )

    def _buckets(self, start: Manifest) -> Iterator[tuple[int, list[tuple[uuid.UUID, Stamp]]]]:
        """Every bucket from the cursor on, empty ones too, with the points the index holds of it."""
        bits, following = start.bits, start.cursor or 0
        points = self.index.scroll(self.generation.collection, first_of(following, bits))
        for bucket, group in groupby(points, lambda one: bucket_of(one[0].bytes, bits)):
            yield from ((empty, []) for empty in range(following, bucket))
            yield bucket, list(group)
            following = bucket + 1
        yield from ((empty, []) for empty in range(following, 1 << bits))

    def _bucket(self, bucket: int, start: Manifest, points: list[tuple[uuid.UUID, Stamp]]) -> tuple[Part, ...] | None:
        """The bucket's parts as they are to be from now on; None: as they were."""
        ours = [part for part in start.parts if _overlaps(part, start.bits, bucket)]
        known, parts = self._known(ours, start.bits, bucket)
        spared = self._spared(known, dict(points))
        current = [0] * len(parts)
        changed = []
        for point, stamp in points:
            row = known.get(point.bytes)
            if row is not None and row[:2] == (stamp.version, bytes.fromhex(stamp.text_hash)):
                current[row[2]] += 1
            elif point.bytes not in spared:
                changed.append((point, stamp))
        for row in spared.values():
            current[row[2]] += 1
        counted = tuple(self._counted(part, count) for part, count in zip(parts, current, strict=True))
        cut_anew = any(part.bits != start.bits for part in parts)
        if cut_anew or (counted and needs_rewrite(counted, self.rules, self.keys.moment)):
            self.written.rewritten += 1
            whole = [one for one in points if one[0].bytes not in spared]
            return tuple(self._store(bucket, start.bits, whole, self._carried(counted, spared)))
        self.written.unchanged += len(points) - len(changed)
        after = (*counted, *self._store(bucket, start.bits, changed, iter(())))
        return None if after == tuple(ours) else after

    def _spared(self, known: Known, points: dict[uuid.UUID, Stamp]) -> Known:
        """Kept rows that are better than what the index has: nothing, or an older version of a memory that lives."""
        behind: dict[uuid.UUID, Stamp | None] = {}
        for kept, row in known.items():
            point = uuid.UUID(bytes=kept)
            stamp = points.get(point)
            if stamp is None or stamp.version < row[0]:
                behind[point] = stamp
        records = self._records(list(behind))
        spared: Known = {}
        for point, stamp in behind.items():
            record = records.get(point)
            if record is not None and record.indexed and (stamp is None or record.version >= known[point.bytes][0]):
                spared[point.bytes] = known[point.bytes]
            elif stamp is None:
                self.written.dropped += 1
        return spared

    def _known(self, parts: Sequence[Part], bits: int, bucket: int) -> tuple[Known, list[Part]]:
        """The newest row of each of the bucket's points, and the parts that could be read."""
        known: Known = {}
        sound: list[Part] = []
        for part in parts:
            keys = self.shelf.keys(part)
            if keys is None:
                continue
            for point, version, text_hash in zip(keys.points, keys.versions.tolist(), keys.hashes, strict=True):
                if part.bits == bits or bucket_of(point, bits) == bucket:
                    known[point] = (version, text_hash, len(sound))
            sound.append(part)
        return known, sound

    def _counted(self, part: Part, current: int) -> Part:
        since = part.stale_since or self.keys.moment
        return replace(part, current=current, stale_since=None if current == part.rows else since)

    def _carried(self, parts: Sequence[Part], lost: Known) -> Iterator[Rows]:
        """Rows of the bucket's old parts whose points the index has lost."""
        for place, part in enumerate(parts):
            wanted = {point for point, row in lost.items() if row[2] == place}
            rows = self.shelf.rows(part) if wanted else None
            if rows is not None:
                yield rows.chosen([at for at, point in enumerate(rows.keys.points) if point in wanted])

    def _store(
        self, bucket: int, bits: int, points: Sequence[tuple[uuid.UUID, Stamp]], carried: Iterator[Rows]
    ) -> Iterator[Part]:
        """Parts of these points and rows, each within its bounds."""
        width = self.generation.space.dimensions
        room = self.rules.rows_a_part(width)
        waiting: list[Rows] = []
        for piece in _chain(self._read(points), carried):
            for start in range(0, len(piece), room):
                cut = piece if len(piece) <= room else piece.chosen(range(start, min(start + room, len(piece))))
                if waiting and sum(map(len, waiting)) + len(cut) > room:
                    yield self._put(bucket, bits, merged(waiting, width))
                    waiting = []
                waiting.append(cut)
        if waiting:
            yield self._put(bucket, bits, merged(waiting, width))

    def _put(self, bucket: int, bits: int, rows: Rows) -> Part:
        self.alive()
        part = self.shelf.put_part(self.new_id().hex, bits, bucket, rows, self.rules.precision)
        self.written.rows += part.rows
        self.written.parts += 1
        self.written.bytes += part.bytes
        self.written.loss = max(self.written.loss, part.loss)
        return part

    def _read(self, points: Sequence[tuple[uuid.UUID, Stamp]]) -> Iterator[Rows]:
        """Rows of points as the index holds them, in slices, without what moves meanwhile or has no living memory."""
        collection, size = (
            self.generation.collection,
            min(SLICE, self.rules.rows_a_part(self.generation.space.dimensions)),
        )
        rest = iter(points)
        while piece := dict(islice(rest, size)):
            self.alive()
            ids = list(piece)
            vectors = self.index.vectors(collection, ids)
            # The stamp says which text the vector is of: only if it is the same before and after is that certain.
            stamps = self.index.stamps(collection, ids)
            records = self._records(ids)
            still = [one for one in ids if one in vectors and stamps.get(one) == piece[one]]
            self.written.moving += len(ids) - len(still)
            alive = [one for one in still if one in records and records[one].indexed]
            if alive:
                yield _rows(
                    [(one, piece[one], records[one]) for one in alive], np.stack([vectors[one] for one in alive])
                )

    def _records(self, points: Sequence[uuid.UUID]) -> dict[uuid.UUID, PointRecord]:
        found: dict[uuid.UUID, PointRecord] = {}
        for start in range(0, len(points), SLICE):
            with self.database.tenant(self.generation.tenant) as session:
                found |= of_points(session, self.generation.tenant, points[start : start + SLICE])
        return found


def _overlaps(part: Part, bits: int, bucket: int) -> bool:
    """Whether a part may hold rows of a bucket: of its own, or of one that was cut by fewer bits."""
    return part.bits <= bits and bucket >> (bits - part.bits) == part.bucket


def _chain(*pieces: Iterable[Rows]) -> Iterator[Rows]:
    for rows in pieces:
        yield from rows


def _rows(points: Sequence[tuple[uuid.UUID, Stamp, PointRecord]], vectors: np.ndarray) -> Rows:
    moments = [record.moment if record.version == stamp.version else UNKNOWN for _, stamp, record in points]
    keys = Keys(
        [point.bytes for point, _, _ in points],
        np.array([stamp.version for _, stamp, _ in points], dtype=np.int64),
        [bytes.fromhex(stamp.text_hash) for _, stamp, _ in points],
    )
    return Rows(keys, [record.id for _, _, record in points], np.array(moments, dtype=np.int64), vectors)
