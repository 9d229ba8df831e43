"""The probe questions of data/: is one of the memories that answer among the first 5 or 10?

And of what a note of data/ is about, how many of the notes it links to: that is what the graph is to bring.
"""

from __future__ import annotations

import json
import statistics
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from core.assembly import Engine, open_engine
from core.assembly.stores import prepare_record, stop_embedded
from core.batch.embed import Portion, step
from core.model.query import Found
from core.model.ranking import CONVERSATIONS, PLAIN, Ranking
from core.settings import load_settings
from core.write.markdown import find_notes, read_note
from core.write.outline import LineIndex, outline_of

DATA = Path(__file__).parents[2] / "data"
NOTES_TENANT = "lumen-studio"
GRAPH = 0.3
OFF = {"neighbours": 0.0, "session": 0.0, "speaker": 0.0}
RANKINGS: dict[str, Ranking] = {
    "vectors alone": replace(CONVERSATIONS, keyword=0.0, **OFF),
    "keywords alone": replace(CONVERSATIONS, vector=0.0, **OFF),
    "merged": replace(CONVERSATIONS, **OFF),
    "all (the default)": CONVERSATIONS,
    "all, with the graph": replace(CONVERSATIONS, graph=GRAPH),
    "all, keywords alone": replace(CONVERSATIONS, vector=0.0),
    "all, with MMR 0.7": replace(CONVERSATIONS, mmr=0.7),
    "all, with decay of 30 days": replace(CONVERSATIONS, decay_half_life=timedelta(days=30)),
    "profile plain": PLAIN,
}


def probes() -> list[dict[str, Any]]:
    """The questions with what answers them."""
    lines = (DATA / "probes.jsonl").read_text(encoding="utf-8").split("\n")
    return [json.loads(line) for line in lines if line]


def load(engine: Engine) -> None:
    """The sample corpora and notes, embedded."""
    for path in sorted((DATA / "corpora").glob("*.jsonl")):
        list(engine.import_lines(path.stem, path))
    list(engine.import_notes(NOTES_TENANT, DATA / "notes", "notes"))
    for tenant in sorted(path.stem for path in (DATA / "corpora").glob("*.jsonl")):
        step(engine.embed_work(), Portion(tenant=tenant, records=10_000))


def first_rank(probe: dict[str, Any], found: tuple[Found, ...]) -> int | None:
    """Where the first memory that answers stands, from 1. A note answers with any of its chunks."""
    note = probe.get("expected_note")
    for rank, one in enumerate(found, start=1):
        path = one.memory.source.path if one.memory.source else ""
        if one.memory.id in probe.get("expected", ()) or (note is not None and path.endswith(f"/{note}")):
            return rank
    return None


def share(engine: Engine, ranking: Ranking, asked: list[dict[str, Any]]) -> tuple[float, float]:
    """The parts of the questions answered within 5 and within 10."""
    ranks = [
        first_rank(probe, engine.search(probe["tenant"], probe["query"], 10, ranking=ranking).found) for probe in asked
    ]
    return statistics.mean(rank is not None and rank <= 5 for rank in ranks), statistics.mean(
        rank is not None for rank in ranks
    )


def links() -> dict[str, set[str]]:
    """What each note of data/ is about, and the names of the notes it links to."""
    notes = [read_note(DATA / "notes", path) for path in find_notes(DATA / "notes")]
    there = {Path(note.path).stem for note in notes}
    found = {
        note.title or Path(note.path).stem: {
            link.target for link in outline_of(note.body, LineIndex(note.body)).links if link.target in there
        }
        for note in notes
    }
    return {title: targets for title, targets in found.items() if targets}


def linked_share(engine: Engine, ranking: Ranking, linked: dict[str, set[str]]) -> float:
    """Asked what a note is about: the part of the notes it links to that is among the first 10, on average."""
    shares = []
    for title, targets in linked.items():
        found = engine.search(NOTES_TENANT, title, 10, ranking=ranking).found
        seen = {Path(one.memory.source.path).stem for one in found if one.memory.source}
        shares.append(len(targets & seen) / len(targets))
    return statistics.mean(shares)


def probes_found(home: Path) -> list[list[str]]:
    """A table of the rankings, its header first."""
    settings = load_settings(home=home, search_answers_kept=timedelta(0))
    prepare_record(settings)
    try:
        with open_engine(settings) as engine:
            load(engine)
            asked = [probe for probe in probes() if probe.get("expected") or probe.get("expected_note")]
            linked = links()
            rows = [["ranking", "answered in 5", "in 10", "linked notes in 10"]]
            for name, ranking in RANKINGS.items():
                within = (*share(engine, ranking, asked), linked_share(engine, ranking, linked))
                rows.append([name, *(f"{one:.3f}" for one in within)])
            return rows
    finally:
        stop_embedded(settings)
