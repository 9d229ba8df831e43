"""`make bench-quality`: how well the engine finds, through its public search call.

    python -m tests.bench.quality --shared ../shared

Public conversations: recall@10 of the turns that hold the answer (categories 1 to 4), and whether a session with
such a turn stands among the first 5 or 10 distinct sessions (all categories). Then the probes of data/, and
phrases of public notes in Japanese, Chinese and Korean.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from core.assembly import Engine, open_engine
from core.assembly.stores import prepare_record, stop_embedded
from core.batch.embed import Portion, step
from core.model.ranking import CONVERSATIONS, PLAIN, Ranking
from core.settings import load_settings
from core.write.gate import draft_of
from tests.bench.locomo import turns
from tests.bench.phrases import phrases_found
from tests.bench.probes import GRAPH, probes_found

TURNS, SESSIONS_OF = 10, 50
NO_ANSWER = 5
ALONE = {"neighbours": 0.0, "session": 0.0, "speaker": 0.0}
VECTORS = replace(CONVERSATIONS, keyword=0.0, **ALONE)
KEYWORDS = replace(CONVERSATIONS, vector=0.0, **ALONE)
MERGED = replace(CONVERSATIONS, **ALONE)
BESIDE = replace(MERGED, neighbours=CONVERSATIONS.neighbours)
ABLATION: dict[str, Ranking] = {
    "vectors alone": VECTORS,
    "keywords alone": KEYWORDS,
    "merged": MERGED,
    "merged, reciprocal rank": replace(MERGED, fusion="rank"),
    "+ neighbours": BESIDE,
    "+ neighbours, sessions": replace(BESIDE, session=CONVERSATIONS.session),
    "+ neighbours, speakers": replace(BESIDE, speaker=CONVERSATIONS.speaker),
    "all (the default)": CONVERSATIONS,
    "all, with the graph": replace(CONVERSATIONS, graph=GRAPH),
    "all, keywords alone": replace(CONVERSATIONS, vector=0.0),
    "all, with MMR 0.7": replace(CONVERSATIONS, mmr=0.7),
    "all, with decay of 30 days": replace(CONVERSATIONS, decay_half_life=timedelta(days=30)),
    "profile plain": PLAIN,
}


@dataclass(frozen=True, slots=True)
class Asked:
    """A question, and the turns and sessions that hold its answer."""

    tenant: str
    text: str
    turns: frozenset[str]
    sessions: frozenset[str]
    category: int


@dataclass(frozen=True, slots=True)
class Recall:
    """How much was found: parts of one."""

    turns: float
    session_5: float
    session_10: float


def questions(samples: list[dict[str, Any]]) -> list[Asked]:
    """The questions whose evidence stands in the conversations."""
    asked = []
    for sample in samples:
        session_of = {turn["id"]: turn["session"] for turn in turns(sample)}
        for question in sample["qa"]:
            ids = {f"{sample['sample_id']}:{one}" for one in question["evidence"]} & session_of.keys()
            if ids:
                sessions = frozenset(session_of[one] for one in ids)
                asked.append(
                    Asked(sample["sample_id"], question["question"], frozenset(ids), sessions, question["category"])
                )
    return asked


def measured(engine: Engine, one: Asked, ranking: Ranking) -> Recall:
    """What the public search call finds of one question's evidence; `turns` is NaN where there is no answer."""
    part = math.nan
    if one.category != NO_ANSWER:
        answer = engine.search(one.tenant, one.text, TURNS, ranking=ranking)
        part = len(one.turns & {hit.memory.id for hit in answer.found}) / len(one.turns)
    answer = engine.search(one.tenant, one.text, SESSIONS_OF, ranking=ranking)
    seen = list(dict.fromkeys(hit.memory.session for hit in answer.found))
    return Recall(part, not one.sessions.isdisjoint(seen[:5]), not one.sessions.isdisjoint(seen[:10]))


def mean(found: Iterable[Recall]) -> Recall:
    """The means over questions."""
    listed = list(found)
    return Recall(
        statistics.mean(one.turns for one in listed if not math.isnan(one.turns)),
        statistics.mean(one.session_5 for one in listed),
        statistics.mean(one.session_10 for one in listed),
    )


@contextmanager
def engine_with(samples: list[dict[str, Any]], home: Path) -> Iterator[Engine]:
    """An engine on embedded stores of its own that holds the conversations, one a tenant."""
    settings = load_settings(home=home, search_answers_kept=timedelta(0))
    prepare_record(settings)
    try:
        with open_engine(settings) as engine:
            for sample in samples:
                tenant = sample["sample_id"]
                drafts = [draft_of(turn) for turn in turns(sample)]
                list(engine.write_many(tenant, drafts))
                step(engine.embed_work(), Portion(tenant=tenant, records=len(drafts)))
            yield engine
    finally:
        stop_embedded(settings)


def conversations(path: Path, home: Path, names: list[str]) -> list[list[str]]:
    """The ablation: tuned on the first conversations, confirmed on the others, and over all of them."""
    samples = json.loads(path.read_text(encoding="utf-8"))
    halves = {sample["sample_id"] for sample in samples[: len(samples) // 2]}
    rows = []
    with engine_with(samples, home) as engine:
        asked = questions(samples)
        for name in names:
            started = time.perf_counter()
            found = {one: measured(engine, one, ABLATION[name]) for one in asked}
            parts = [
                mean(figure for one, figure in found.items() if one.tenant in halves),
                mean(figure for one, figure in found.items() if one.tenant not in halves),
                mean(found.values()),
            ]
            figures = [f"{one.turns:.3f} {one.session_5:.3f} {one.session_10:.3f}" for one in parts]
            rows.append([name, *figures, f"{time.perf_counter() - started:.0f} s"])
    return rows


def show(title: str, columns: list[str], rows: list[list[str]]) -> None:
    """A table for people."""
    table = Table(*columns, title=title, box=None)
    for row in rows:
        table.add_row(*row)
    Console(width=140).print(table)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shared", type=Path, default=Path("../shared"))
    parser.add_argument("--only", nargs="*", choices=list(ABLATION), default=list(ABLATION))
    parser.add_argument("--skip-rest", action="store_true", help="the conversations only")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="memory-quality-") as folder:
        where = Path(folder)
        path = chosen.shared / "data" / "locomo_dev.json"
        if path.exists():
            columns = ["turns@10, session@5, session@10", "tuned on", "confirmed on", "all", "time"]
            show("Conversations", columns, conversations(path, where / "talks", chosen.only))
        if chosen.skip_rest:
            return
        rest: list[tuple[str, Callable[[], list[list[str]]]]] = [
            ("Probes of data/", lambda: probes_found(where / "probes")),
            ("Phrases", lambda: phrases_found(chosen.shared / "data" / "notes", where / "notes")),
        ]
        for title, measure in rest:
            rows = measure()
            show(title, rows[0], rows[1:])


if __name__ == "__main__":
    main()
