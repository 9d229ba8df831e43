"""Phrases of public notes in scripts without spaces: does the keyword leg find them among the first 5?"""

from __future__ import annotations

import random
import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from core.assembly import Engine, open_engine
from core.assembly.stores import prepare_record, stop_embedded
from core.batch.embed import Portion, step
from core.model.ranking import CONVERSATIONS, Ranking
from core.settings import load_settings

LANGUAGES = ("ja", "zh", "ko")
COUNT, FIRST = 40, 5
KEYWORDS = replace(CONVERSATIONS, vector=0.0, neighbours=0.0, session=0.0, speaker=0.0)
RANKINGS: dict[str, Ranking] = {
    "keywords alone": KEYWORDS,
    "merged": replace(CONVERSATIONS, neighbours=0.0, session=0.0, speaker=0.0),
    "all (the default)": CONVERSATIONS,
    "all, with the graph": replace(CONVERSATIONS, graph=0.3),
}
_RUN = re.compile("[\u3041-\u30ff\u3400-\u9fff\uac00-\ud7a3]{2,}")


def phrases(root: Path, language: str, seed: int = 7) -> list[str]:
    """COUNT phrases of 2 to 6 characters that stand in the notes, the same each time."""
    chance = random.Random(seed)
    runs = [run for path in sorted((root / language).rglob("*.md")) for run in _RUN.findall(path.read_text("utf-8"))]
    taken: list[str] = []
    while len(taken) < COUNT:
        run = chance.choice(runs)
        size = min(len(run), chance.randint(2, 6))
        start = chance.randrange(len(run) - size + 1)
        taken.append(run[start : start + size])
    return taken


def found_share(engine: Engine, tenant: str, asked: list[str], ranking: Ranking) -> float:
    """The part of the phrases that one of the first answers holds as they stand."""
    answers = [engine.search(tenant, phrase, FIRST, ranking=ranking).found for phrase in asked]
    held = [
        any(phrase in f"{hit.memory.title}\n{hit.memory.content}" for hit in found)
        for phrase, found in zip(asked, answers, strict=True)
    ]
    return sum(held) / len(held)


def phrases_found(root: Path, home: Path) -> list[list[str]]:
    """A table of languages and rankings, its header first; only that where the notes are not there."""
    header = ["language", "chunks", *RANKINGS]
    if not root.is_dir():
        return [header]
    settings = load_settings(home=home, search_answers_kept=timedelta(0))
    prepare_record(settings)
    rows = [header]
    try:
        with open_engine(settings) as engine:
            for language in LANGUAGES:
                list(engine.import_notes(language, root / language))
                step(engine.embed_work(), Portion(tenant=language, records=100_000))
                asked = phrases(root, language)
                shares = [found_share(engine, language, asked, ranking) for ranking in RANKINGS.values()]
                rows.append([language, str(engine.count(language)), *(f"{one:.3f}" for one in shares)])
        return rows
    finally:
        stop_embedded(settings)
