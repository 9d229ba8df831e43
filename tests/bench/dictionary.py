"""Trains the dictionary of archived objects from the sample corpora, and tells what one saves on texts it never saw.

python -m tests.bench.dictionary [--write core/model/dictionaries/1.zdict]
"""

from __future__ import annotations

import argparse
import json
import uuid
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import zstandard

from core.model.archive import archived_json
from core.model.compression import LEVEL
from core.model.memory import Draft, Memory
from core.write.chunks import ChunkLimits
from core.write.jsonl import read_lines
from core.write.markdown import drafts_of, find_notes, read_note
from tests.house.source import ROOT

SIZE = 32 << 10
START = datetime(2026, 3, 1, 8, 30, 0, 123456, tzinfo=UTC)
CORPORA = ("harbor-clinic", "lumen-studio", "wanderlight", "notes")


def samples(name: str) -> list[bytes]:
    """A corpus as the JSON of archived objects."""
    data = ROOT / "data"
    if name == "notes":
        root = data / "notes"
        drafts = [one for path in find_notes(root) for one in drafts_of(read_note(root, path), ChunkLimits(), "s")]
    else:
        drafts = [line.draft for line in read_lines(data / "corpora" / f"{name}.jsonl") if line.draft is not None]
    return [archived_json(memory_of(name, number, draft)) for number, draft in enumerate(drafts)]


def memory_of(tenant: str, number: int, draft: Draft) -> Memory:
    """The memory a draft becomes."""
    moment = START + timedelta(hours=7 * number, microseconds=number * 7919)
    named: dict[str, Any] = {field.name: getattr(draft, field.name) for field in fields(Draft)}
    del named["sensitive"]
    memory_id = draft.id or f"mem_{uuid.UUID(int=number).hex}"
    made = named | {"id": memory_id, "tags": tuple(draft.tags), "created_at": draft.created_at or moment}
    return replace(
        Memory(tenant=tenant, embedding_id=uuid.UUID(int=number), version=1, tier="warm", updated_at=moment, **made)
    )


def trained(parts: list[bytes], size: int = SIZE, number: int = 1) -> bytes:
    """A dictionary of about `size` bytes."""
    return zstandard.train_dictionary(size, parts, level=LEVEL, dict_id=number).as_bytes()


def sizes(parts: list[bytes], dictionary: bytes | None) -> int:
    """Bytes of all parts, each compressed by itself."""
    chosen = None if dictionary is None else zstandard.ZstdCompressionDict(dictionary)
    compressor = zstandard.ZstdCompressor(level=LEVEL, dict_data=chosen, write_checksum=True)
    return sum(len(compressor.compress(part)) for part in parts)


def held_out() -> dict[str, dict[str, float]]:
    """For each corpus: how much smaller it gets without a dictionary, and with one trained on the others."""
    found = {}
    for name in CORPORA:
        parts = samples(name)
        raw = sum(map(len, parts))
        dictionary = trained([part for other in CORPORA if other != name for part in samples(other)])
        found[name] = {
            "objects": len(parts),
            "bytes": raw,
            "without": round(raw / sizes(parts, None), 2),
            "with": round(raw / sizes(parts, dictionary), 2),
        }
    return found


def main() -> None:
    """Print the measurement; write the dictionary where it is asked for."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--write", type=Path)
    chosen = arguments.parse_args()
    print(json.dumps(held_out(), indent=2))
    if chosen.write is not None:
        chosen.write.parent.mkdir(parents=True, exist_ok=True)
        chosen.write.write_bytes(trained([part for name in CORPORA for part in samples(name)]))


if __name__ == "__main__":
    main()
