"""Vectors by text hash out of snapshots, for generations that are being recovered or built.

Which part holds which hash goes into a file of this machine once a snapshot is first asked, and a part's vectors
when one of them is first wanted: memory stays small, however many vectors are kept.
"""

from __future__ import annotations

import logging
import sqlite3
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from core.errors import EngineError
from core.index.snapshots.reading import parts_of
from core.index.snapshots.shelf import Shelf
from core.model.generation import Generation, GenerationState
from core.model.point import Vector
from core.model.snapshot import Part
from core.ports import BlobStore
from core.record.database import Database
from core.record.kept import keys

logger = logging.getLogger(__name__)

LOOK_AGAIN = 60.0
KEPT_OPEN = 4
ASKED_AT_ONCE = 500
WHILE = (GenerationState.BUILDING, GenerationState.VERIFIED)


class SnapshotVectors:
    """A `KnownVectors` that costs nothing while there is nothing to rebuild. Thread-safe; closed once.

    `clock` counts seconds: whether there is another snapshot is looked up once a minute.
    """

    def __init__(self, database: Database, blobs: BlobStore, clock: Callable[[], float]) -> None:
        self._database = database
        self._blobs = blobs
        self._clock = clock
        self._open: OrderedDict[tuple[str, str], tuple[float, _Index | None]] = OrderedDict()
        self._lock = threading.Lock()

    def vectors_of_texts(self, generation: Generation, hashes: Sequence[str]) -> dict[str, Vector]:
        """Those of `hashes` some snapshot of the tenant in the same space holds; none for a generation at rest."""
        if not (generation.recovering or generation.state in WHILE):
            return {}
        with self._lock:
            try:
                index = self._index(generation)
                return {} if index is None else index.vectors(hashes)
            except EngineError as problem:
                logger.warning("snapshots are not looked into: %s", problem.message)
            except (OSError, sqlite3.Error) as problem:
                logger.warning("snapshots are not looked into: %s on this machine's disk", type(problem).__name__)
            return {}

    def close(self) -> None:
        """Remove the files."""
        with self._lock:
            for _, index in self._open.values():
                if index is not None:
                    index.close()
            self._open.clear()

    def _index(self, generation: Generation) -> _Index | None:
        key = (generation.tenant, generation.space.fingerprint)
        known = self._open.get(key)
        if known is not None and self._clock() - known[0] < LOOK_AGAIN:
            self._open.move_to_end(key)
            return known[1]
        with self._database.tenant(generation.tenant) as session:
            check = keys(session).hash_check
        parts = parts_of(self._blobs, generation, check)
        index = None if known is None else known[1]
        if index is not None and index.names != {part.name for _, part in parts}:
            index.close()
            index = None
        if index is None and parts:
            index = _Index(parts)
        self._open[key] = (self._clock(), index)
        self._open.move_to_end(key)
        while len(self._open) > KEPT_OPEN:
            _, (_, oldest) = self._open.popitem(last=False)
            if oldest is not None:
                oldest.close()
        return index


class _Index:
    """Where each text hash is, and the parts fetched so far, below a folder of its own."""

    def __init__(self, parts: Sequence[tuple[Shelf, Part]]) -> None:
        self.names = {part.name for _, part in parts}
        self._parts = parts
        self._folder = tempfile.TemporaryDirectory(prefix="memory-snapshot-")
        self._fetched: dict[int, Path | None] = {}
        self._rows = sqlite3.connect(Path(self._folder.name) / "rows", check_same_thread=False, isolation_level=None)
        self._rows.execute("PRAGMA journal_mode = OFF")
        self._rows.execute("PRAGMA synchronous = OFF")
        self._rows.execute("CREATE TABLE kept (hash BLOB PRIMARY KEY, part INTEGER, place INTEGER) WITHOUT ROWID")
        self._rows.execute("BEGIN")
        for number in range(len(parts)):
            self._rows.executemany("INSERT OR IGNORE INTO kept VALUES (?, ?, ?)", self._placed(number))
        self._rows.execute("COMMIT")

    def vectors(self, hashes: Sequence[str]) -> dict[str, Vector]:
        """The vectors of those hashes that are kept and sound."""
        found: dict[str, Vector] = {}
        wanted: dict[int, list[tuple[str, int]]] = {}
        for start in range(0, len(hashes), ASKED_AT_ONCE):
            asked = [bytes.fromhex(one) for one in hashes[start : start + ASKED_AT_ONCE]]
            marks = ",".join("?" * len(asked))
            rows = self._rows.execute(f"SELECT hash, part, place FROM kept WHERE hash IN ({marks})", asked)  # noqa: S608
            for text_hash, part, place in rows:
                wanted.setdefault(part, []).append((text_hash.hex(), place))
        for part, places in wanted.items():
            vectors = self._vectors(part)
            if vectors is None:
                continue
            for text_hash, place in places:
                vector = np.array(vectors[place], dtype=np.float32)
                if np.isfinite(vector).all() and vector.any():
                    found[text_hash] = vector
        return found

    def close(self) -> None:
        self._rows.close()
        self._folder.cleanup()

    def _placed(self, number: int) -> Iterator[tuple[bytes, int, int]]:
        shelf, part = self._parts[number]
        found = shelf.keys(part)
        if found is not None:
            yield from ((text_hash, number, place) for place, text_hash in enumerate(found.hashes))

    def _vectors(self, number: int) -> Vector | None:
        if number not in self._fetched:
            shelf, part = self._parts[number]
            rows = shelf.rows(part)
            path = Path(self._folder.name) / f"{number}.npy"
            if rows is not None:
                np.save(path, rows.vectors)
            self._fetched[number] = None if rows is None else path
        path_of = self._fetched[number]
        return None if path_of is None else np.load(path_of, mmap_mode="r")
