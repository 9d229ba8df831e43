"""A floor under how well the engine finds, on one public conversation, through the public search call."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from core.model.ranking import CONVERSATIONS
from tests.bench.quality import Asked, engine_with, questions

TALKS = Path(__file__).parents[3] / "shared" / "data" / "locomo_dev.json"


@pytest.mark.skipif(not TALKS.exists(), reason="the public conversations are not here")
def test_the_defaults_find_what_they_found(tmp_path: Path) -> None:
    samples = json.loads(TALKS.read_text(encoding="utf-8"))[:1]
    asked = [one for one in questions(samples) if one.category != 5][:100]
    with engine_with(samples, tmp_path / "home") as engine:

        def part(one: Asked, vector: float) -> float:
            ranking = replace(CONVERSATIONS, vector=vector)
            found = {hit.memory.id for hit in engine.search(one.tenant, one.text, 10, ranking=ranking).found}
            return len(one.turns & found) / len(one.turns)

        merged = sum(part(one, CONVERSATIONS.vector) for one in asked) / len(asked)
        keywords = sum(part(one, 0.0) for one in asked) / len(asked)
    assert merged >= 0.68, merged
    assert keywords >= 0.66, keywords
