"""Public conversations as JSON Lines, to run the engine on text nobody here wrote.

    python -m tests.bench.locomo ../shared/data/locomo_dev.json locomo.jsonl
    memory import locomo.jsonl --tenant locomo && memory run nightly

A turn's id is sample id and dia_id, its session sample id and number, its time the session's date.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any


def turns(sample: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The turns of one conversation, in order, as drafts."""
    conversation, name = sample["conversation"], sample["sample_id"]
    number = 1
    while f"session_{number}_date_time" in conversation:
        began = datetime.strptime(conversation[f"session_{number}_date_time"], "%I:%M %p on %d %B, %Y")
        for position, turn in enumerate(conversation.get(f"session_{number}", [])):
            yield {
                "id": f"{name}:{turn['dia_id']}",
                "content": turn["text"],
                "session": f"{name}:{number}",
                "position": position,
                "speaker": turn["speaker"],
                "role": "user",
                "type": "turn",
                "project": name,
                "created_at": (began.replace(tzinfo=UTC) + timedelta(seconds=position)).isoformat(),
            }
        number += 1


def main() -> None:
    """Write the JSON Lines file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    chosen = parser.parse_args()
    samples = json.loads(chosen.source.read_text(encoding="utf-8"))
    lines = [json.dumps(turn, ensure_ascii=False) for sample in samples for turn in turns(sample)]
    chosen.target.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{len(lines)} turns")


if __name__ == "__main__":
    main()
