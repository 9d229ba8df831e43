"""What an archived object says: one version of a memory, whole, as JSON with a format number.

`{"format": 1, "sha256": …, "record": {…}}`: the checksum is of the record's own canonical JSON, so that an object
proves itself without the stub; the stub holds the SHA-256 of the whole object. A record is written the same way
each time, or a second put of it would look like another object.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from core.errors import BadAnswer, Misconfigured
from core.model.memory import Memory

FORMAT = 1
SNIPPET_CHARACTERS = 160

# Of a record everything that a change of version can change; not where it is, nor when it was read.
_FIELDS = (
    *("tenant", "id", "version", "subject", "scope", "project", "agent", "session", "position", "speaker", "role"),
    *("type", "title", "content", "tags", "labels", "metadata", "importance", "source", "expires_at", "created_at"),
    *("updated_at", "key_id"),
)


@dataclass(frozen=True, slots=True)
class Archived:
    """What an object holds of a memory: whose it is, which version, and its record by field."""

    tenant: str
    id: str
    version: int
    content: str
    record: dict[str, Any]


def archived_json(memory: Memory) -> bytes:
    """One version of a memory as the JSON of its object. Its content must be whole."""
    if memory.stored is not None:
        raise ValueError("only a whole memory can be archived")
    values = asdict(memory)
    record = {name: _plain(values[name]) for name in _FIELDS if values[name] not in (None, (), {})}
    return _canonical({"format": FORMAT, "sha256": _checksum(record), "record": record})


def read_archived(data: bytes) -> Archived:
    """What an object's JSON says. Raises BadAnswer when it does not prove itself, Misconfigured for a later format."""
    try:
        found = json.loads(data)
        number, record, checksum = found["format"], found["record"], found["sha256"]
    except (ValueError, KeyError, TypeError):
        raise BadAnswer("an archived object is no JSON of this kind") from None
    if not isinstance(number, int) or number > FORMAT:
        raise Misconfigured(f"an archived object is of format {number}, which a later release wrote: upgrade")
    if not isinstance(record, dict) or _checksum(record) != checksum:
        raise BadAnswer("an archived object does not match its own checksum")
    return Archived(record["tenant"], record["id"], record["version"], record["content"], record)


def snippet(content: str) -> str:
    """The beginning of a text that stays in the record: at most half of it, cut between words where there are any."""
    length = min(SNIPPET_CHARACTERS, len(content) // 2)
    if length == len(content):
        return content
    beginning = content[:length]
    cut = beginning.rsplit(maxsplit=1)[0] if beginning.split() and not content[length : length + 1].isspace() else ""
    return (cut if len(cut) > length // 2 else beginning).rstrip()


def _checksum(record: dict[str, Any]) -> str:
    return hashlib.sha256(_canonical(record)).hexdigest()


def _canonical(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":")).encode()


def _plain(value: object) -> object:
    return value.astimezone(UTC).isoformat() if isinstance(value, datetime) else value
