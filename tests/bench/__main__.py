"""`make bench`: each figure beside its limit, both measured in this run. Sizes are arguments.

python -m tests.bench --records 20000 --writes 500 --searches 300 --json build/bench.json
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.assembly import Engine, open_engine
from core.assembly.stores import prepare_record, stop_embedded
from core.batch.embed import Portion, step
from core.model.memory import Draft, embedding_id
from core.model.point import Point, payload_of
from core.record.memories import Place
from core.settings import Settings, load_settings
from tests.bench import lifecycle, reindex, searching
from tests.bench.drift import looked
from tests.bench.footprint import drained
from tests.bench.limits import BareShard, copy_rows, library_model, timed, two_insert_commits
from tests.bench.snapshots import kept
from tests.bench.texts import texts

TENANT = "bench"


def percentiles(seconds: list[float]) -> dict[str, float]:
    """Median and 95th percentile, in milliseconds."""
    ordered = sorted(seconds)
    return {
        "p50_ms": round(statistics.median(ordered) * 1000, 2),
        "p95_ms": round(ordered[int(len(ordered) * 0.95)] * 1000, 2),
    }


def bulk(engine: Engine, url: str, drafts: list[Draft]) -> dict[str, float]:
    """Bulk import beside a bare COPY of the same texts into a plain table."""
    ours = timed(lambda: list(engine.write_many(TENANT, drafts)))
    return {
        "rows_per_s": round(len(drafts) / ours),
        "bare_copy_rows_per_s": round(len(drafts) / copy_rows(url, drafts)),
    }


def drain(engine: Engine, count: int, contents: list[str]) -> dict[str, float]:
    """The drain beside the bare model (ours and its library's own call) on the same texts, and the bare index."""
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
        "model_library_per_s": round(library_model(contents)),
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


def commits(engine: Engine, url: str, count: int) -> dict[str, Any]:
    """Single writes beside a bare transaction of two inserts, in turns of fifty."""
    ours: list[float] = []
    bare: list[float] = []
    contents = texts(count, random.Random(4))
    for start in range(0, count, 50):
        part = contents[start : start + 50]
        ours += [timed(lambda text=text: engine.write(TENANT, Draft(content=text))) for text in part]
        bare += two_insert_commits(url, part)
    return {"ours": percentiles(ours), "bare_two_inserts": percentiles(bare)}


def upsert_one(engine: Engine, bare: BareShard, vectors: NDArray[np.float32]) -> dict[str, Any]:
    """One guarded point with its payload at a time, beside the bare library's unguarded one without."""
    index = engine._indexer._index
    payload = payload_of(engine.list(TENANT, Place(), 1)[0], "h")
    ours = [timed(lambda v=v: index.upsert("bare.g1", [Point(payload, v)])) for v in vectors]
    return {"ours": percentiles(ours), "bare_index": percentiles(bare.upserts(vectors))}


def searches(engine: Engine, bare: BareShard, count: int, contents: list[str]) -> dict[str, Any]:
    """Whole searches: with the query to embed, then with its vector cached; and the index's bare query.

    The bare query is over as many vectors, with no filter, and the answers are ids without records.
    """
    seed = random.Random(5)
    asked = [" ".join(seed.choice(contents).split()[:8]) for _ in range(count)]
    engine.search(TENANT, asked[0], 10)
    whole = percentiles([timed(lambda text=text: engine.search(TENANT, text, 10)) for text in asked])
    again = percentiles([timed(lambda text=text: engine.search(TENANT, text, 10)) for text in asked])
    vectors = random_vectors(engine, count, 11)
    return {
        "records": engine.count(TENANT),
        "first": whole,
        "query_vector_cached": again,
        "bare_index": percentiles(bare.queries(vectors, 10)),
    }


def random_vectors(engine: Engine, count: int, seed: int) -> NDArray[np.float32]:
    """Vectors as wide as the engine's own."""
    width = engine._writer._space.dimensions
    return np.random.default_rng(seed).normal(size=(count, width)).astype(np.float32)


def run(settings: Settings, records: int, writes: int, asked: int) -> dict[str, Any]:
    """All figures of one process, on a fresh home."""
    url = prepare_record(settings)
    contents = texts(records, random.Random(3))
    drafts = [Draft(id=f"b{number}", content=text) for number, text in enumerate(contents)]
    with open_engine(settings) as engine:
        figures: dict[str, Any] = {"bulk_import": bulk(engine, url, drafts)}
        figures["drain"] = drain(engine, records, contents)
        figures["write_commit"] = commits(engine, url, writes)
        bare = BareShard(settings.home / "bare", random_vectors(engine, records, 9))
        figures["upsert_one"] = upsert_one(engine, bare, random_vectors(engine, min(writes, 500), 8))
        figures["search"] = searches(engine, bare, asked, contents)
        bare.close()
    figures["targets"] = {"write_commit p95": 15, "upsert_one p95": 25, "search p95": 30, "drain share": 0.6}
    return figures


def on_fresh_home(measure: Callable[[Settings], dict[str, Any]]) -> dict[str, Any]:
    """A measurement on embedded stores of its own."""
    with tempfile.TemporaryDirectory(prefix="memory-bench-") as home:
        settings = load_settings(home=Path(home) / "home")
        try:
            return measure(settings)
        finally:
            stop_embedded(settings)


def main() -> None:
    """Parse the sizes, run in a temporary home, print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=20_000)
    parser.add_argument("--writes", type=int, default=500)
    parser.add_argument("--searches", type=int, default=300)
    parser.add_argument("--footprint", type=int, nargs="*", default=[20_000, 100_000], help="records, each measured")
    parser.add_argument("--reindex", type=int, default=20_000, help="records of a reindex, and of one beside searches")
    parser.add_argument("--reindex-footprint", type=int, nargs="*", default=[100_000, 200_000])
    parser.add_argument("--kept", type=int, nargs="*", default=[100_000, 200_000], help="vectors kept and recovered")
    parser.add_argument("--archived", type=int, default=4000, help="records archived and restored")
    parser.add_argument("--reaped", type=int, default=50_000, help="rows reaped")
    parser.add_argument("--searched", type=int, default=100_000, help="records that are searched, in 2,000 sessions")
    parser.add_argument("--drift", type=int, nargs="*", default=[100_000], help="records compared with their index")
    parser.add_argument("--json", type=Path, default=Path("build/bench.json"))
    chosen = parser.parse_args()
    figures = on_fresh_home(lambda settings: run(settings, chosen.records, chosen.writes, chosen.searches))
    figures["draining_process"] = [
        on_fresh_home(lambda settings, records=records: drained(settings, records)) for records in chosen.footprint
    ]
    figures["reindex"] = on_fresh_home(lambda settings: reindex.rate(settings, chosen.reindex))
    figures["reindex_beside_searches"] = on_fresh_home(
        lambda settings: reindex.beside_searches(settings, chosen.reindex, chosen.searches)
    )
    figures["reindexing_process"] = [
        on_fresh_home(lambda settings, records=records: reindex.memory_of(settings, records))
        for records in chosen.reindex_footprint
    ]
    figures["snapshot_and_recover"] = [
        on_fresh_home(lambda settings, records=records: kept(settings, records)) for records in chosen.kept
    ]
    figures["lifecycle"] = lifecycle.run(chosen.archived, chosen.reaped)
    figures["searching"] = on_fresh_home(
        lambda settings: searching.measure(settings, chosen.searched, chosen.searched // 50, chosen.searches)
    )
    figures["drift"] = [
        on_fresh_home(lambda settings, records=records: looked(settings, records)) for records in chosen.drift
    ]
    chosen.json.parent.mkdir(parents=True, exist_ok=True)
    chosen.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
