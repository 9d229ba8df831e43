"""Snapshot and recovery beside the bare index: vectors a second, and how much memory each takes as the corpus grows."""

from __future__ import annotations

import shutil
import sys
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import qdrant_edge as edge

from core.assembly import Engine, open_engine
from core.assembly.stores import prepare_record
from core.batch.recover import BEGINNING
from core.batch.recover import step as recover_step
from core.batch.snapshot import step as snapshot_step
from core.model.generation import Generation
from core.model.memory import Draft
from core.model.point import PAYLOAD_FIELDS, Point, payload_of
from core.record.kept import NIL, generations_kept, page
from core.settings import Settings
from tests.bench.footprint import peaks_of
from tests.bench.limits import timed

TENANT = "kept"
BATCH = 2000


def kept(settings: Settings, records: int) -> dict[str, Any]:
    """A generation of random vectors: snapshot, next snapshot with nothing new, recovery; each beside its limit.

    The bare upsert is the library's own, unguarded, of the same points with the same payloads and payload indexes.
    """
    prepare_record(settings)
    with open_engine(settings) as engine:
        drafts = (Draft(id=f"k{n}", content=f"memory {n}", tags=("a", "b")) for n in range(records))
        for _ in engine.write_many(TENANT, drafts):
            pass
        (generation,) = generations_kept(engine._database, TENANT)
        points = filled(engine, generation, records)
        first = timed(lambda: all_portions(engine))
        again = timed(lambda: all_portions(engine))
        bare_before = bare_upserts(settings.home / "bare", points, generation.space.dimensions)
        lose(engine, settings, generation)
        spent = timed(lambda: recovered(engine, records))
        bare = (bare_before + bare_upserts(settings.home / "bare", points, generation.space.dimensions)) / 2
        del points
        lose(engine, settings, generation)
    taking, recovering = (peaks(settings, what) for what in ("recover", "snapshot"))
    return {
        "records": records,
        "snapshot_per_s": round(records / first),
        "unchanged_per_s": round(records / again),
        "recover_per_s": round(records / spent),
        "bare_upsert_per_s": round(records / bare),
        "share_of_bare": round(bare / spent, 3),
        "recover_peak_mb": taking,
        "snapshot_peak_mb": recovering,
    }


def filled(engine: Engine, generation: Generation, records: int) -> list[Point]:
    """The index as the drain would have left it, with random vectors; the points."""
    index, rng = engine._stores.index, np.random.default_rng(5)
    index.create(generation.collection, generation.space.dimensions)
    made: list[Point] = []
    after = NIL
    for _ in range(records // BATCH + 1):
        with engine._database.tenant(TENANT) as session:
            rows = page(session, TENANT, after, BATCH)
            session.execute("DELETE FROM outbox")
        if not rows:
            break
        vectors = rng.normal(size=(len(rows), generation.space.dimensions)).astype(np.float32)
        batch = [Point(payload_of(row, uuid.uuid4().hex), vector) for row, vector in zip(rows, vectors, strict=True)]
        index.upsert(generation.collection, batch)
        made += batch
        after = rows[-1].embedding_id
    return made


def all_portions(engine: Engine) -> None:
    """A whole snapshot."""
    work = engine.safekeeping.snapshot_work()
    while not snapshot_step(work, TENANT).done:
        pass


def recovered(engine: Engine, records: int) -> None:
    """A whole recovery."""
    work, cursor, restored = engine.safekeeping.recover_work(), BEGINNING, 0
    while cursor is not None:
        report = recover_step(work, TENANT, cursor)
        restored += report.figures.restored
        cursor = report.cursor
    if restored != records:
        raise SystemExit(f"{restored} of {records} were recovered")


def lose(engine: Engine, settings: Settings, generation: Generation) -> None:
    """The collection's folder vanishes."""
    engine._stores.index._shards.let_go(generation.collection)
    shutil.rmtree(settings.home / "vectors" / generation.collection)


def bare_upserts(folder: Path, points: list[Point], width: int) -> float:
    """Seconds the index's library takes for the same points, in the same batches."""
    folder.mkdir(parents=True)
    params = edge.EdgeVectorParams(size=width, distance=edge.Distance.Cosine)
    shard = edge.EdgeShard.create(str(folder), edge.EdgeConfig(vectors={"text": params}))

    for field, kind in PAYLOAD_FIELDS.items():
        shard.update(edge.UpdateOperation.create_field_index(field, getattr(edge.PayloadSchemaType, kind.title())))

    def store() -> None:
        for start in range(0, len(points), BATCH):
            batch = [
                edge.Point(one.payload.embedding_id, {"text": one.vector.tolist()}, one.payload.fields)
                for one in points[start : start + BATCH]
            ]
            shard.update(edge.UpdateOperation.upsert_points(batch))

    seconds = timed(store)
    shard.close()
    shutil.rmtree(folder)
    return seconds


def peaks(settings: Settings, what: str) -> dict[str, int]:
    """Peak memory of a recovery or of a first snapshot, in a process of its own."""
    if what == "snapshot":
        shutil.rmtree(settings.home / "objects")
    command = [sys.executable, "-m", "tests.bench.snapshots", what]
    resident, own = peaks_of(command, {"MEMORY_HOME": str(settings.home), "PYTHONPATH": str(Path.cwd())})
    return {"resident": round(resident / 1024), "own": round(own / 1024)}


def main() -> None:
    """One chore, whole, on the home of the environment."""
    from core.settings import load_settings

    with open_engine(load_settings()) as engine:
        if sys.argv[1] == "snapshot":
            all_portions(engine)
        else:
            recovered(engine, engine.count(TENANT))
    sys.stdout.write(f"done {datetime.now(UTC)}\n")


if __name__ == "__main__":
    main()
