"""`make bench`: each figure beside its limit, both measured in this run. Sizes are arguments.

python -m tests.bench --records 20000 --writes 500 --searches 300 --json build/bench.json
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psycopg

from core.assembly import Engine, open_engine, prepare_record, stop_embedded
from core.batch.embed import Portion, step
from core.model.memory import Draft, embedding_id
from core.model.point import Point, payload_of
from core.record.memories import Place
from core.settings import Settings, load_settings
from tests.bench.texts import texts

TENANT = "bench"


def percentiles(seconds: list[float]) -> dict[str, float]:
    """Median and 95th percentile, in milliseconds."""
    ordered = sorted(seconds)
    return {
        "p50_ms": round(statistics.median(ordered) * 1000, 2),
        "p95_ms": round(ordered[int(len(ordered) * 0.95)] * 1000, 2),
    }


def timed(call: Callable[[], object]) -> float:
    """Seconds a call took."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def bulk(engine: Engine, url: str, drafts: list[Draft]) -> dict[str, float]:
    """Bulk import beside a bare COPY of the same texts into a plain table."""
    ours = timed(lambda: list(engine.write_many(TENANT, drafts)))

    def bare_copy() -> None:
        with psycopg.connect(url) as session, session.cursor() as cursor:
            cursor.execute("CREATE TEMPORARY TABLE bare (id text, content text)")
            with cursor.copy("COPY bare FROM STDIN") as copy:
                for draft in drafts:
                    copy.write_row((draft.id, draft.content))

    return {"rows_per_s": round(len(drafts) / ours), "bare_copy_rows_per_s": round(len(drafts) / timed(bare_copy))}


def drain(engine: Engine, count: int, contents: list[str]) -> dict[str, float]:
    """The drain beside the bare model on the same texts, and the bare index on ready points."""
    model = engine._writer._space
    embedder = engine._indexer._embedder_of(model)
    embedder.embed(["warm"], "document")
    size = engine.settings.embed_batch
    batches = [contents[start : start + size] for start in range(0, len(contents), size)]
    bare = timed(lambda: [embedder.embed(batch, "document") for batch in batches])
    spent = timed(lambda: step(engine.embed_work(), Portion(tenant=TENANT, records=count)))
    bare_again = timed(lambda: [embedder.embed(batch, "document") for batch in batches])
    model_rate = count / statistics.mean([bare, bare_again])
    return {
        "records_per_s": round(count / spent),
        "bare_model_per_s": round(model_rate),
        "bare_index_per_s": round(bare_index(engine, min(count, 5000))),
        "share_of_bare_model": round(count / spent / model_rate, 3),
    }


def bare_index(engine: Engine, count: int) -> float:
    """Ready points a second, into a collection of their own."""
    index, rng = engine._indexer._index, np.random.default_rng(7)
    payload = payload_of(engine.list(TENANT, Place(), 1)[0], "h")
    width = engine._writer._space.dimensions
    index.create("bare.g1", width)
    points = [
        Point(replace(payload, embedding_id=embedding_id("bare", str(number))), vector)
        for number, vector in enumerate(rng.normal(size=(count, width)).astype(np.float32))
    ]
    return count / timed(lambda: index.upsert("bare.g1", points))


def upsert_one(engine: Engine, count: int) -> dict[str, float]:
    """One point at a time, into the live collection's neighbour."""
    index, rng = engine._indexer._index, np.random.default_rng(8)
    payload = payload_of(engine.list(TENANT, Place(), 1)[0], "h")
    vectors = rng.normal(size=(count, engine._writer._space.dimensions)).astype(np.float32)
    return percentiles([timed(lambda v=v: index.upsert("bare.g1", [Point(payload, v)])) for v in vectors])


def searches(engine: Engine, count: int, contents: list[str], seed: random.Random) -> dict[str, Any]:
    """Whole searches, first with the query to embed, then with its vector cached."""
    asked = [" ".join(seed.choice(contents).split()[:8]) for _ in range(count)]
    engine.search(TENANT, asked[0], 10)
    whole = percentiles([timed(lambda text=text: engine.search(TENANT, text, 10)) for text in asked])
    again = percentiles([timed(lambda text=text: engine.search(TENANT, text, 10)) for text in asked])
    return {"records": engine.count(TENANT), "first": whole, "query_vector_cached": again}


def run(settings: Settings, records: int, writes: int, asked: int) -> dict[str, Any]:
    """All figures, on a fresh home."""
    url = prepare_record(settings)
    contents = texts(records, random.Random(3))
    drafts = [Draft(id=f"b{number}", content=text) for number, text in enumerate(contents)]
    with open_engine(settings) as engine:
        figures: dict[str, Any] = {"bulk_import": bulk(engine, url, drafts)}
        figures["drain"] = drain(engine, records, contents)
        singles = [Draft(content=text) for text in texts(writes, random.Random(4))]
        figures["write_commit"] = percentiles([timed(lambda d=d: engine.write(TENANT, d)) for d in singles])
        figures["upsert_one"] = upsert_one(engine, min(writes, 500))
        figures["search"] = searches(engine, asked, contents, random.Random(5))
    figures["peak_memory_mb"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    figures["targets"] = {"write_commit p95": 15, "upsert_one p95": 25, "search p95": 30, "drain share": 0.6}
    return figures


def main() -> None:
    """Parse the sizes, run in a temporary home, print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=20_000)
    parser.add_argument("--writes", type=int, default=500)
    parser.add_argument("--searches", type=int, default=300)
    parser.add_argument("--json", type=Path, default=Path("build/bench.json"))
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="memory-bench-") as home:
        settings = load_settings(home=Path(home) / "home")
        try:
            figures = run(settings, chosen.records, chosen.writes, chosen.searches)
        finally:
            stop_embedded(settings)
    chosen.json.parent.mkdir(parents=True, exist_ok=True)
    chosen.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
