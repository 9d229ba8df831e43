"""A reindex to another width of the bundled model: its rate, the searches beside it, and the memory it takes."""

from __future__ import annotations

import json
import os
import random
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from core.assembly import open_engine
from core.assembly.models import open_embedder
from core.assembly.stores import prepare_record
from core.batch.embed import Portion, step
from core.model.memory import Draft
from core.settings import EmbeddingModel, Settings
from tests.bench.footprint import peaks_of
from tests.bench.limits import library_model, timed
from tests.bench.texts import texts

TENANT = "bench"
WIDTH = 128
BOUND_SECONDS = 1800


def filled(settings: Settings, records: int) -> list[str]:
    """Records of one tenant, in the index."""
    prepare_record(settings)
    contents = texts(records, random.Random(3))
    with open_engine(settings) as engine:
        drafts = (Draft(id=f"b{number}", content=text) for number, text in enumerate(contents))
        for _ in engine.write_many(TENANT, drafts):
            pass
        step(engine.embed_work(), Portion(tenant=TENANT, records=records, last=True))
    return contents


def command(settings: Settings) -> tuple[list[str], dict[str, str]]:
    """The reindex as people run it, and its environment."""
    memory = str(Path(sys.executable).with_name("memory"))
    given = ["reindex", "--tenant", TENANT, "--model", "wordllama", "--dimensions", str(WIDTH)]
    return [memory, *given], {"MEMORY_HOME": str(settings.home)}


def beside_searches(settings: Settings, records: int, asked: int) -> dict[str, Any]:
    """Searches while another process reindexes, beside quiet ones; and the rate beside the bare model's."""
    contents = filled(settings, records)
    seed = random.Random(5)
    questions = [" ".join(seed.choice(contents).split()[:8]) for _ in range(asked)]
    with open_engine(settings) as engine:
        for text in questions:
            engine.search(TENANT, text, 10)
        quiet = [timed(lambda text=text: engine.search(TENANT, text, 10)) for text in questions]
        words, chosen = command(settings)
        process = subprocess.Popen(words, env={**os.environ, **chosen}, stdout=subprocess.DEVNULL)
        during: list[float] = []
        failed = 0
        deadline = time.monotonic() + BOUND_SECONDS
        while process.poll() is None and time.monotonic() < deadline:
            try:
                began = time.perf_counter()
                answer = engine.search(TENANT, questions[len(during) % asked], 10)
                during.append(time.perf_counter() - began)
                failed += answer.degraded is not None
            except Exception:  # noqa: BLE001  counted, whatever it is
                failed += 1
            time.sleep(0.005)
        if process.wait(timeout=10):
            raise SystemExit("the reindex failed")
        longest = max(during)
    return {
        "records": records,
        "quiet": _percentiles(quiet),
        "during": {**_percentiles(during), "longest_ms": round(1000 * longest, 1)},
        "searches_during": len(during),
        "failed": failed,
    }


def rate(settings: Settings, records: int) -> dict[str, Any]:
    """Records a second from the first task to the swap, beside the bare model on the same texts."""
    contents = filled(settings, records)
    embedder = open_embedder(EmbeddingModel(provider="wordllama", dimensions=WIDTH), settings)
    embedder.embed(["warm"], "document")
    batches = [contents[start : start + 500] for start in range(0, records, 500)]
    bare = timed(lambda: [embedder.embed(batch, "document") for batch in batches])
    words, chosen = command(settings)
    ended = subprocess.run(
        [*words, "--json"],
        env={**os.environ, **chosen},
        capture_output=True,
        text=True,
        check=True,
        timeout=BOUND_SECONDS,
    )
    seconds = json.loads(ended.stdout)["tenants"][0]["seconds"]
    library = library_model(contents)
    return {
        "records": records,
        "records_per_s": round(records / seconds),
        "bare_model_per_s": round(records / bare),
        "model_library_per_s": round(library),
        "share_of_library": round(records / seconds / library, 2),
    }


def memory_of(settings: Settings, records: int) -> dict[str, Any]:
    """Peak memory of the reindexing process (its own, without the files of the index), in MB."""
    filled(settings, records)
    resident, own = peaks_of(*command(settings))
    return {"records": records, "resident_mb": round(resident / 1024), "own_mb": round(own / 1024)}


def _percentiles(seconds: list[float]) -> dict[str, float]:
    ordered = sorted(seconds)
    return {
        "p50_ms": round(1000 * statistics.median(ordered), 2),
        "p95_ms": round(1000 * ordered[int(len(ordered) * 0.95)], 2),
    }
