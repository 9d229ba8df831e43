"""Rebuilding an index from record and snapshot, beside everything else that goes on (DESIGN.md section 8).

Page by page in the order of point ids: what the record wants and the index lacks is taken from the snapshot where
that holds the vector of the very same version, and handed to the drain where it does not. Like every write to an
index these are guarded by version, and the record is looked at again after each page.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice

from core.errors import Conflict, NotFound
from core.index.known import KnownVectors
from core.index.snapshots.reading import KeptRow, KeptRows
from core.model.generation import Generation, GenerationState
from core.model.outbox import Lane
from core.model.point import Point, Stamp, payload_of
from core.model.space import text_hash
from core.model.tokens import estimated_tokens
from core.ports import VectorIndex
from core.record import memories
from core.record.database import Database
from core.record.generations import live_generation
from core.record.kept import NIL, Bare, PointRecord, enqueue_for, moved, of_points, page
from core.record.outbox import enqueue

PAGE = 2000


@dataclass(slots=True, kw_only=True)
class Restored:
    """What a piece of a recovery found and did, or would do.

    Of `wanted` memories `right` ones were there; `missing`, `stale` (an older version) and `ahead` ones (a version
    the record no longer knows) were not. Of those `restored` ones got their kept vector at once and `enqueued` ones
    are left to the drain. `orphans` are points the record does not want. A dry run also tells how many of the
    enqueued need no embedding (`reusable`) and how many `tokens` the rest takes.
    """

    wanted: int = 0
    right: int = 0
    missing: int = 0
    stale: int = 0
    ahead: int = 0
    orphans: int = 0
    restored: int = 0
    enqueued: int = 0
    moved: int = 0
    reusable: int = 0
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class Looked:
    """A page of memories as it was read, with the kept rows of its points where they were looked up with it."""

    rows: Sequence[Bare]
    kept: Mapping[uuid.UUID, KeptRow] | None

    @property
    def end(self) -> uuid.UUID | None:
        """Where the next page begins; None: this is the last."""
        return self.rows[-1].embedding_id if len(self.rows) == PAGE else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """Recovers one generation. `known` are vectors kept elsewhere; `swapping` tells whether an alias is being moved.

    With `dry` nothing is changed in any store.
    """

    database: Database
    index: VectorIndex
    generation: Generation
    kept: KeptRows | None
    known: Sequence[KnownVectors] = ()
    swapping: Callable[[str], bool] = lambda _tenant: False
    dry: bool = False

    def prepare(self) -> bool:
        """Make the collection if it is gone. True: it is empty, so that nothing has to be compared."""
        collection = self.generation.collection
        if self.dry:
            return collection not in self.index.collections() or self.index.count(collection) == 0
        self.index.create(collection, self.generation.space.dimensions)
        return self.index.count(collection) == 0

    def look(self, after: uuid.UUID, *, empty: bool) -> Looked:
        """Read the next page of memories behind `after`, and what is kept of it; changes nothing."""
        with self.database.tenant(self.generation.tenant) as session:
            rows = page(session, self.generation.tenant, after, PAGE)
        points = sorted(row.embedding_id for row in rows if row.indexed)
        return Looked(rows, self.kept.of(points) if empty and self.kept is not None else None)

    def records(self, looked: Looked, done: Restored, *, empty: bool) -> uuid.UUID | None:
        """Bring a page of memories; where it ended, or None: that was the last."""
        tenant, rows = self.generation.tenant, looked.rows
        wanted = {row.embedding_id: row for row in rows if row.indexed}
        stamps = {} if empty else self.index.stamps(self.generation.collection, list(wanted))
        lacking = self._lacking(wanted, stamps, done)
        exact = self._exact(lacking, looked.kept)
        rest = [row for point, row in lacking.items() if point not in exact]
        done.wanted += len(wanted)
        done.right += len(wanted) - len(lacking)
        done.restored += len(exact)
        done.enqueued += len(rest)
        if self.dry:
            self._estimate(rest, done)
        else:
            self._write([(lacking[point], row) for point, row in exact.items()], done)
            if rest:
                with self.database.tenant(tenant) as session:
                    enqueue_for(session, self.generation, [row.id for row in rest])
        return looked.end

    def orphans(self, after: uuid.UUID, done: Restored) -> uuid.UUID | None:
        """Remove what the record does not want from the next page of points; where it ended, or None."""
        collection = self.generation.collection
        if self.dry and collection not in self.index.collections():
            return None
        behind = uuid.UUID(int=min(after.int + 1, 2**128 - 1)) if after != NIL else NIL
        points = list(islice(self.index.scroll(collection, behind), PAGE))
        records = self._records([point for point, _ in points])
        strays = {point: stamp.version for point, stamp in points if point not in records or not records[point].indexed}
        done.orphans += len(strays)
        if strays and not self.dry:
            self.index.delete(collection, strays)
            # A memory that came to be meanwhile has lost its point, which no version says.
            self._look_again({one.id: 0 for one in self._records(list(strays)).values() if one.indexed}, done)
        return points[-1][0] if len(points) == PAGE else None

    def alias(self) -> str | None:
        """What the alias of a live generation named if it was not its collection, or "" for nothing; it does now.

        None: it was right, it is none of this generation's business, or a swap is under way, which is right itself.
        """
        tenant, collection = self.generation.tenant, self.generation.collection
        current = self.index.alias(self.generation.alias)
        with self.database.tenant(tenant) as session:
            live = live_generation(session, tenant)
        ours = live is not None and live.number == self.generation.number
        if current == collection or not ours or self.generation.state is not GenerationState.LIVE:
            return None
        if self.swapping(tenant):
            return None
        if not self.dry:
            try:
                self.index.point_alias(self.generation.alias, collection, current)
            except Conflict:
                return None  # somebody else moved it meanwhile, and had a reason to
        return current or ""

    def _lacking(
        self, wanted: dict[uuid.UUID, Bare], stamps: dict[uuid.UUID, Stamp], done: Restored
    ) -> dict[uuid.UUID, Bare]:
        """The memories that are not in the index at their version; points ahead of the record are taken out."""
        lacking = {}
        ahead: dict[uuid.UUID, int] = {}
        for point, row in wanted.items():
            stamp = stamps.get(point)
            if stamp is None:
                done.missing += 1
            elif stamp.version < row.version:
                done.stale += 1
            elif stamp.version > row.version:
                ahead[point] = stamp.version
                continue
            else:
                continue
            lacking[point] = row
        # Was it the record that moved on since the page was read?
        now = self._records(list(ahead))
        ahead = {point: version for point, version in ahead.items() if point not in now or now[point].version < version}
        done.ahead += len(ahead)
        if ahead and not self.dry:
            self.index.delete(self.generation.collection, ahead)
        return lacking | {point: wanted[point] for point in ahead}

    def _exact(
        self, lacking: dict[uuid.UUID, Bare], read: Mapping[uuid.UUID, KeptRow] | None
    ) -> dict[uuid.UUID, KeptRow]:
        """Kept rows of exactly these versions; `read`: those of the page, if they were looked up already."""
        if read is None:
            read = {} if self.kept is None else self.kept.of(sorted(lacking))
        # The time is compared too: a record restored from a backup may come to a version again, of another text.
        return {
            point: row
            for point, row in read.items()
            if point in lacking and (row.version, row.moment) == (lacking[point].version, lacking[point].moment)
        }

    def _write(self, found: Sequence[tuple[Bare, KeptRow]], done: Restored) -> None:
        if not found:
            return
        points = [Point(payload_of(bare, row.text_hash), row.vector) for bare, row in found]
        self.index.upsert(self.generation.collection, points)
        self._look_again({bare.id: bare.version for bare, _ in found}, done)

    def _look_again(self, written: Mapping[str, int], done: Restored) -> None:
        """Enqueue what is not, or no longer, as it was written."""
        tenant = self.generation.tenant
        with self.database.tenant(tenant) as session:
            changed = moved(session, tenant, written)
            if changed:
                enqueue(session, tenant, changed, Lane.ONLINE)
        done.moved += len(changed)

    def _records(self, points: Sequence[uuid.UUID]) -> dict[uuid.UUID, PointRecord]:
        if not points:
            return {}
        with self.database.tenant(self.generation.tenant) as session:
            return of_points(session, self.generation.tenant, points)

    def _estimate(self, rest: Iterable[Bare], done: Restored) -> None:
        """How many of these need no embedding, and what the others take."""
        tenant, space = self.generation.tenant, self.generation.space
        ids = [row.id for row in rest]
        if not ids:
            return
        with self.database.tenant(tenant) as session:
            key = memories.keys(session).hash_key
            found, _ = memories.fetch_to_index(session, tenant, ids)
        texts = {memory_id: space.document_text(one.title, one.content) for memory_id, one in found.items()}
        hashes = {memory_id: text_hash(text, key) for memory_id, text in texts.items()}
        known = self._held(sorted(set(hashes.values())))
        for source in self.known:
            known |= source.vectors_of_texts(self.generation, sorted(set(hashes.values()) - known)).keys()
        done.reusable += sum(one in known for one in hashes.values())
        new = {one: memory_id for memory_id, one in hashes.items() if one not in known}
        done.tokens += sum(estimated_tokens(texts[memory_id]) for memory_id in new.values())

    def _held(self, hashes: Sequence[str]) -> set[str]:
        try:
            return set(self.index.vectors_of_texts(self.generation.collection, self.generation.tenant, hashes))
        except NotFound:
            return set()


class ReadAhead:
    """Reads pages of a recovery one ahead of those that are being written, in a thread of its own; close it.

    What a page says may be older by the time of one page then: the version guard and the second look see to that.
    """

    def __init__(self, recovery: Recovery) -> None:
        self._recovery = recovery
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="recover")
        self._next: tuple[uuid.UUID, Future[Looked]] | None = None

    def page(self, after: uuid.UUID, *, empty: bool, more: bool) -> Looked:
        """The page behind `after`; with `more` the one behind it is begun. Raises as `Recovery.look` does."""
        begun, self._next = self._next, None
        if begun is not None and begun[0] == after:
            looked = begun[1].result()
        else:
            looked = self._recovery.look(after, empty=empty)
        if more and looked.end is not None:
            self._next = (looked.end, self._pool.submit(self._recovery.look, looked.end, empty=empty))
        return looked

    def close(self) -> None:
        """Wait for what was begun, and end the thread."""
        self._pool.shutdown()
