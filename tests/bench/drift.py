"""Looking for drift: the numbers, the digests, the walk of every point, and the whole look, by the size of a tenant.

python -m tests.bench.drift --records 100000 1000000
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import psycopg

from core.assembly import Engine, open_engine
from core.assembly.stores import prepare_record
from core.batch.embed import Portion
from core.batch.embed import step as drain
from core.batch.reconcile import remove, step
from core.index.drift import Comparison
from core.model.drift import Depth, DriftRules, Look, Tally, Verdict, spans_of
from core.model.generation import Generation
from core.model.memory import Draft, embedding_id
from core.model.point import Point, payload_of
from core.model.space import text_hash
from core.record import drift, memories
from core.record.kept import NIL, generations_kept, page
from core.settings import Settings

TENANT = "drift"
BATCH = 2000
# Ids are given point ids as the engine gives them; the rest of a row is short, and no look reads it.
ROWS = """
INSERT INTO memory (
    tenant, id, embedding_id, version, scope, type, content, tags, labels, metadata, importance, created_at)
SELECT %s, i.id, i.point, 1, 'user', 'fact', 'the first memory', '{}', '{}', '{}', 0.5, now()
FROM unnest(%s::text[], %s::uuid[]) AS i (id, point) ORDER BY i.id
"""


def looked(settings: Settings, records: int) -> dict[str, Any]:
    """A tenant in step: seconds of each depth; then one percent of the points lost: seconds until they are back."""
    url = prepare_record(settings)
    with open_engine(settings) as engine:
        engine.write(TENANT, Draft(id="first", content="the first memory"))
        _fill_record(url, records - 1)
        (generation,) = generations_kept(engine._database, TENANT)
        _fill_index(engine, generation, records)
        drift.fold(engine._database, TENANT)
        found: dict[str, Any] = {"records": records}
        time.sleep(engine.settings.reconcile_minimum_age.total_seconds())
        for depth in Depth:
            found[f"{depth.value}_s"] = _timed(lambda depth=depth: _clean(engine, depth))
        found["walk_s"] = _timed(lambda: _walk(engine, generation, records))
        found["one_percent_lost_until_back_s"] = _timed(lambda: _lost(engine, generation, records))
        found["peak_mb"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    return found


def _fill_record(url: str, records: int) -> None:
    with psycopg.connect(url) as session:
        for start in range(0, records, 50_000):
            ids = [f"r{n:09}" for n in range(start, min(records, start + 50_000))]
            session.execute(ROWS, [TENANT, ids, [embedding_id(TENANT, one) for one in ids]])
            session.execute("DELETE FROM outbox")
            session.commit()
    with psycopg.connect(url, autocommit=True) as session:
        session.execute("VACUUM ANALYZE memory")
        session.execute("VACUUM ANALYZE outbox")


def _fill_index(engine: Engine, generation: Generation, records: int) -> None:
    """Random vectors, all said to be of the one text."""
    index, rng, space = engine._stores.index, np.random.default_rng(5), generation.space
    index.create(generation.collection, space.dimensions)
    index.point_alias(generation.alias, generation.collection, None)
    with engine._database.tenant(TENANT) as session:
        hashed = text_hash(space.document_text(None, "the first memory"), memories.keys(session).hash_key)
    after = NIL
    for _ in range(records // BATCH + 1):
        with engine._database.tenant(TENANT) as session:
            rows = page(session, TENANT, after, BATCH)
        if not rows:
            return
        vectors = rng.normal(size=(len(rows), space.dimensions)).astype(np.float32)
        points = [Point(payload_of(row, hashed), vector) for row, vector in zip(rows, vectors, strict=True)]
        index.upsert(generation.collection, points)
        after = rows[-1].embedding_id


def _timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return round(time.perf_counter() - started, 2)


def _clean(engine: Engine, depth: Depth) -> None:
    """One look that finds nothing."""
    report = step(engine.upkeep.work(), Look(tenant=TENANT), depth, dry=True)
    (index,) = [one for one in report.stores if one.store == "index"]
    if index.verdict is not Verdict.CLEAN:
        raise SystemExit(str(index))


def _walk(engine: Engine, generation: Generation, records: int) -> None:
    tally = Tally(most=10)
    comparison = Comparison(engine._database, engine._stores.index, generation, DriftRules())
    points = comparison.walk(spans_of(range(256)), tally)
    if points != records or tally.total:
        raise SystemExit(f"{points} points, {tally.counts}")


def _lost(engine: Engine, generation: Generation, records: int) -> None:
    """From the loss to the last point being back: what a glance, its comparison and the drain take together."""
    doomed = {embedding_id(TENANT, f"r{n:09}"): 1 for n in range(0, records - 1, 100)}
    engine._stores.index.delete(generation.collection, doomed)
    engine.upkeep.glance([TENANT])
    remove(engine.upkeep.work(), TENANT, 100_000)
    drain(engine.embed_work(), Portion(tenant=TENANT, records=records))
    if (count := engine._stores.index.count(generation.collection)) != records:
        raise SystemExit(f"{count} points of {records}")


def main() -> None:
    """Each size on a fresh home."""
    from tests.bench.__main__ import on_fresh_home

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, nargs="*", default=[100_000])
    for records in parser.parse_args().records:
        print(json.dumps(on_fresh_home(lambda settings, records=records: looked(settings, records))), flush=True)


if __name__ == "__main__":
    main()
