"""Searches over many records: each kind beside the index's and the database's own bare query, in the same run.

    python -m tests.bench.searching --records 100000 --sessions 2000

One tenant has all the records, fifty more share as many among them. Query vectors are cached, answers are not
(but for those measured as kept). A home that is named is filled once and used again.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg

from core.assembly import Engine, open_engine
from core.assembly.stores import prepare_record, record_url, stop_embedded
from core.batch.embed import Portion, step
from core.model.memory import Draft
from core.model.query import Filters, Selection
from core.model.ranking import CONVERSATIONS, PLAIN, Ranking
from core.settings import Settings, load_settings
from tests.bench.limits import timed
from tests.bench.probes import probes
from tests.bench.texts import texts

TENANT, OTHERS = "bench", 50
BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
LIMIT = 10
THREADS = 8
SPEAKERS = ("Ana", "Will", "Maud", "Jonas")
# What both profiles have but for what looks around, so that only that is compared.
ALONE = replace(CONVERSATIONS, neighbours=0.0, session=0.0, speaker=0.0)
FILTERS: dict[str, Filters] = {
    "none": Filters(),
    "half of them (role)": Filters(role="user"),
    "one in 20 (tag)": Filters(tags_any=("tag7",)),
    "one in 50 (project)": Filters(project="project7"),
    "half of them (time)": Filters(created_from=BEGAN + timedelta(days=500)),
    "a session": Filters(session="session7"),
}


def percentiles(seconds: Sequence[float]) -> dict[str, float]:
    """Median and 95th percentile, in milliseconds; and the 10th: what it takes when nothing else runs beside it."""
    ordered = sorted(seconds)
    return {
        "p10_ms": round(ordered[len(ordered) // 10] * 1000, 2),
        "p50_ms": round(statistics.median(ordered) * 1000, 2),
        "p95_ms": round(ordered[int(len(ordered) * 0.95)] * 1000, 2),
    }


def drafts(records: int, sessions: int, seed: int) -> Iterator[Draft]:
    """Turns of sessions, one after another, of four speakers."""
    size = max(1, records // sessions)
    for number, text in enumerate(texts(records, random.Random(seed))):
        yield Draft(
            id=f"b{number}",
            content=text,
            session=f"session{number // size}",
            position=number % size,
            speaker=SPEAKERS[number % len(SPEAKERS)],
            role=("user", "assistant")[number % 2],
            project=f"project{number % 50}",
            tags=(f"tag{number % 20}",),
            created_at=BEGAN + timedelta(minutes=number * 1440 * 1000 // records),
        )


def filled(settings: Settings, records: int, sessions: int) -> None:
    """The records of all tenants, in the index, unless they are there."""
    prepare_record(settings)
    with open_engine(settings) as engine:
        shares = {TENANT: (records, sessions)}
        shares |= {f"{TENANT}{number}": (records // OTHERS, sessions // OTHERS) for number in range(OTHERS)}
        for number, (tenant, (share, talks)) in enumerate(shares.items()):
            if engine.count(tenant) < share:
                for _ in engine.write_many(tenant, drafts(share, talks, number)):
                    pass
                step(engine.embed_work(), Portion(tenant=tenant, records=share, last=True))
    with psycopg.connect(record_url(settings), autocommit=True) as session:
        session.execute("VACUUM ANALYZE")


def rounds(engine: Engine, asked: Sequence[str], ranking: Ranking | None, filters: Filters) -> list[float]:
    """Seconds of each search, of the tenant that has all the records."""
    return [timed(lambda text=text: engine.search(TENANT, text, LIMIT, filters, ranking=ranking)) for text in asked]


def in_turns(calls: dict[str, Callable[[str], object]], asked: Sequence[str]) -> dict[str, Any]:
    """Each kind of call for each question, one kind after another, so that whatever else runs slows all alike."""
    took: dict[str, list[float]] = {name: [] for name in calls}
    for text in asked:
        for name, call in calls.items():
            took[name].append(timed(lambda call=call, text=text: call(text)))
    return {name: percentiles(seconds) for name, seconds in took.items()}


def bare(engine: Engine, url: str) -> dict[str, Callable[[str], object]]:
    """The index asked as the vector leg asks it, and the database as one that looks forty records up."""
    standing = engine._reader._search._standings.of(TENANT)
    generation = standing.generation
    assert generation is not None
    embedder = engine._models.of(generation.space)
    vectors: dict[str, Any] = {}
    selection = Selection(tenant=TENANT, filters=Filters(), alive_at=BEGAN + timedelta(days=2000))
    session = psycopg.connect(url, autocommit=True)

    def index(text: str) -> object:
        if text not in vectors:
            vectors[text] = embedder.embed([text], "query").vectors[0]
        return engine._index.search(generation.collection, vectors[text], selection, 40)

    def look(_text: str) -> object:
        ids = [f"b{number}" for number in range(40)]
        return session.execute("SELECT * FROM memory WHERE tenant = %s AND id = ANY (%s)", [TENANT, ids]).fetchall()

    return {"bare index query": index, "bare look-up of 40": look}


def at_once(engine: Engine, asked: Sequence[str]) -> dict[str, float]:
    """Searches a second of one thread and of eight; on N cores no more than N times as many can be had."""
    alone = len(asked) / timed(lambda: rounds(engine, asked, None, Filters()))
    shares = [asked[number::THREADS] for number in range(THREADS)]
    threads = [threading.Thread(target=rounds, args=(engine, share, None, Filters())) for share in shares]

    def run() -> None:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    together = len(asked) / timed(run)
    return {"one_thread_per_s": round(alone, 1), "eight_threads_per_s": round(together, 1)}


def measure(settings: Settings, records: int, sessions: int, count: int) -> dict[str, Any]:
    """All figures, on a filled home."""
    began = time.perf_counter()
    filled(settings, records, sessions)
    filling = time.perf_counter() - began
    seed = random.Random(5)
    questions = [probe["query"] for probe in probes()]
    asked = [seed.choice(questions) + f" {seed.choice(SPEAKERS)}" * (number % 3 == 0) for number in range(count)]
    figures: dict[str, Any] = {"records": records, "filling_s": round(filling, 1)}
    with open_engine(settings.model_copy(update={"search_answers_kept": timedelta(0)})) as engine:
        ranked = {"conversations": CONVERSATIONS, "the same legs alone": ALONE, "plain": PLAIN}
        calls: dict[str, Callable[[str], object]] = {
            name: lambda text, ranking=ranking: engine.search(TENANT, text, LIMIT, ranking=ranking)
            for name, ranking in ranked.items()
        }
        calls |= bare(engine, record_url(settings))
        for text in set(asked):  # query vectors are cached from here on
            for call in calls.values():
                call(text)
        figures["search"] = in_turns(calls, asked)
        figures["filtered"] = {
            name: percentiles(rounds(engine, asked, None, filters)) for name, filters in FILTERS.items()
        }
        mixed = list(FILTERS.values())[1:]
        figures["filters_mixed"] = percentiles(
            [
                timed(lambda text=text, number=number: engine.search(TENANT, text, LIMIT, mixed[number % len(mixed)]))
                for number, text in enumerate(asked)
            ]
        )
        for number in range(OTHERS):
            engine.search(f"{TENANT}{number}", asked[0], LIMIT)
        figures["fifty_tenants"] = percentiles(
            [
                timed(lambda text=text, number=number: engine.search(f"{TENANT}{number % OTHERS}", text, LIMIT))
                for number, text in enumerate(asked)
            ]
        )
        figures["at_once"] = at_once(engine, asked)
        names = [f"b{seed.randrange(records)}" for _ in range(count)]
        figures["get_by_id"] = percentiles([timed(lambda one=one: engine.get(TENANT, one)) for one in names])
    with open_engine(settings.model_copy(update={"search_answers_kept": timedelta(minutes=5)})) as engine:
        for text in set(asked):
            engine.search(TENANT, text, LIMIT)
        figures["kept_answers"] = percentiles(rounds(engine, asked, None, Filters()))
    figures["targets"] = {
        "filtered p50, p95": [10, 30],
        "conversations over the same legs p50, p95": [4, 8],
        "kept_answers": 3,
        "get_by_id": 2,
    }
    return figures


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--sessions", type=int, default=2_000)
    parser.add_argument("--searches", type=int, default=300)
    parser.add_argument("--home", type=Path, required=True, help="kept, and used again by the next run")
    chosen = parser.parse_args()
    settings = load_settings(home=chosen.home)
    try:
        print(json.dumps(measure(settings, chosen.records, chosen.sessions, chosen.searches), indent=2))
    finally:
        stop_embedded(settings)


if __name__ == "__main__":
    main()
