"""Snapshots: what the object store keeps of a generation's vectors, and when a part of it is written anew.

A generation's rows are cut into buckets by the leading bits of their point ids, which are digests and so fall
evenly; each bucket has parts, the later of which overrule the earlier. Whatever no manifest names does not exist.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

from core.errors import BadAnswer
from core.model.generation import Generation
from core.model.names import index_group

Precision = Literal["float32", "float16"]

FORMAT = 1
FOLDER = "snapshot"
MANIFEST = "manifest-"
MAX_BITS = 16
OVERFULL = 4  # buckets are cut anew when they hold this many parts' worth of rows on average
KEY_BYTES = 100  # about what a row takes beside its vector


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotRules:
    """What the operator chose.

    `part_bytes` bounds a part, `portion` the rows between two manifests. A bucket is written whole again when it
    has more than `compact_parts` parts, or has held a vector nobody wants any more for `compact_after`. A manifest
    goes once the one after it is `keep` old; what none names, once it is `grace` old.
    """

    precision: Precision = "float32"
    part_bytes: int = 16 * 2**20
    portion: int = 100_000
    compact_parts: int = 8
    compact_after: timedelta = timedelta(days=30)
    keep: timedelta = timedelta(days=7)
    grace: timedelta = timedelta(days=1)

    def rows_a_part(self, dimensions: int) -> int:
        """How many rows of this width a part holds at the most."""
        width = dimensions * (4 if self.precision == "float32" else 2)
        return max(1, self.part_bytes // (width + KEY_BYTES))


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One part: its object, the checksums of it and of its keys, and how many of its rows are still current.

    `loss` is the greatest of its rows' 1 - cosine between the vector and what is kept of it. `stale_since`: when
    a row of it was first found to be of no use to anybody.
    """

    name: str
    bits: int
    bucket: int
    rows: int
    current: int
    bytes: int
    sha256: str
    keys_bytes: int
    keys_sha256: str
    precision: Precision
    loss: float
    stale_since: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """One snapshot: the parts it consists of, oldest first.

    `space` and `hash_check` (of the key of text hashes) say what its vectors and hashes are good for. `cursor` is
    the bucket its pass over the generation goes on with; None: the pass came to its end. `taken_at` is the
    database's time.
    """

    tenant: str
    generation: int
    number: int
    fingerprint: str
    space: dict[str, Any]
    hash_check: str
    epoch: int
    taken_at: datetime
    bits: int
    cursor: int | None
    parts: tuple[Part, ...]

    @property
    def rows(self) -> int:
        """Rows that were current when it was taken."""
        return sum(part.current for part in self.parts)


def bits_for(rows: int, rows_a_part: int) -> int:
    """How many leading bits cut so many rows into buckets of about a part or less."""
    bits = 0
    while bits < MAX_BITS and rows > rows_a_part << bits:
        bits += 1
    return bits


def bucket_of(point: bytes, bits: int) -> int:
    """The bucket of a point id, of its 16 bytes."""
    return int.from_bytes(point[:2], "big") >> (16 - bits)


def first_of(bucket: int, bits: int) -> uuid.UUID:
    """The least point id of a bucket."""
    return uuid.UUID(int=bucket << (128 - bits))


def needs_rewrite(parts: Sequence[Part], rules: SnapshotRules, now: datetime) -> bool:
    """Whether a bucket with these parts, their `current` as they are now, is to be written whole again."""
    rows, current = sum(part.rows for part in parts), sum(part.current for part in parts)
    stale = [part.stale_since for part in parts if part.stale_since is not None]
    return (
        len(parts) > rules.compact_parts
        or current * 2 < rows
        or any(now - since >= rules.compact_after for since in stale)
    )


def folder_of(tenant: str) -> str:
    """Where all snapshots of a tenant are, ending in `/`."""
    return f"{index_group(tenant)}/{FOLDER}/"


def folder_name(generation: Generation) -> str:
    """Folder of one generation's snapshots, ending in `/`.

    Its space is part of the name: a record restored from a backup hands out numbers of generations again.
    """
    return f"{folder_of(generation.tenant)}g{generation.number}-{generation.space.fingerprint[:12]}/"


def manifest_name(number: int) -> str:
    """File name of a manifest; in the order of numbers."""
    return f"{MANIFEST}{number:010d}.json"


def manifest_number(name: str) -> int | None:
    """The number of a manifest by its file name; None: it is none."""
    digits = name.removeprefix(MANIFEST).removesuffix(".json")
    return int(digits) if name == f"{MANIFEST}{digits}.json" and digits.isdecimal() and digits.isascii() else None


def part_key(name: str) -> str:
    """File name of a part."""
    return f"{name}.parquet"


def keys_key(name: str) -> str:
    """File name of the keys of a part: its rows without vectors, to be compared without fetching those."""
    return f"{name}.keys.parquet"


def to_json(manifest: Manifest) -> bytes:
    """The manifest as an object, with a checksum of its own."""
    body = json.dumps(asdict(manifest), default=_plain, ensure_ascii=False, sort_keys=True)
    return json.dumps({"format": FORMAT, "sha256": _digest(body), "body": body}, ensure_ascii=False).encode()


def from_json(data: bytes) -> Manifest:
    """The manifest an object holds. Raises BadAnswer for anything but what `to_json` made."""
    try:
        outer = json.loads(data)
        body = outer["body"]
        if outer["format"] != FORMAT or outer["sha256"] != _digest(body):
            raise BadAnswer("a manifest is of another format, or not as it was written")
        fields = json.loads(body)
        fields["parts"] = tuple(_part(one) for one in fields["parts"])
        fields["taken_at"] = datetime.fromisoformat(fields["taken_at"])
        return Manifest(**fields)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadAnswer("a manifest cannot be read") from error


def _part(fields: dict[str, Any]) -> Part:
    since = fields["stale_since"]
    return Part(**{**fields, "stale_since": None if since is None else datetime.fromisoformat(since)})


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _plain(value: object) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} has no form in a manifest")
