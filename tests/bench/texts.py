"""Texts for benchmarks: distinct, and as long as memories are, from the words of the sample corpora."""

from __future__ import annotations

import json
import random
from pathlib import Path

CORPORA = Path(__file__).parents[2] / "data" / "corpora"


def texts(count: int, seed: random.Random) -> list[str]:
    """`count` texts of 10 to 40 words."""
    words: list[str] = []
    for path in sorted(CORPORA.glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").split("\n"):
            if line:
                words += json.loads(line)["content"].split()
    return [" ".join(seed.choices(words, k=seed.randint(10, 40))) for _ in range(count)]
