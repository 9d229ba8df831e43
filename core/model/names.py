"""Names under which a tenant's things stand in the other stores.

The encoding is injective, reversible and safe on case-folding file systems: letters a–z, digits
and `-` stand for themselves, every other UTF-8 byte becomes `_` and two lower-case hex digits. The
result never holds `.`, `/` or `@`, which separate its parts, so no name can leave its prefix.
"""

from __future__ import annotations

import base64
import re
from datetime import datetime

from core.errors import Refused

MAX_ENCODED = 80
_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789-")
_ESCAPE = re.compile(r"_([0-9a-f]{2})")

# A part of a path may have 255 bytes, the whole 900; version and ending take 27, tenant and month 89.
_ID_PART = 200
_PLAIN_ID = 600
_LONGEST_ID = 768
_ARCHIVE_KEY = re.compile(r"([a-z0-9_-]+)/(\d{4}/\d{2})/(@?[a-z0-9_/-]+)\.v(\d{1,16})\.json\.zst")


def encode_name(name: str) -> str:
    """`name` as characters every store accepts; `decode_name` gives it back."""
    return "".join(chr(byte) if byte in _PLAIN else f"_{byte:02x}" for byte in name.encode("utf-8"))


def decode_name(encoded: str) -> str:
    """The name that `encode_name` turned into `encoded`."""
    plain = _ESCAPE.sub(lambda match: chr(int(match[1], 16)), encoded)
    return plain.encode("latin-1").decode("utf-8")


def index_group(tenant: str) -> str:
    """Name of the group of collections a tenant's vectors live in: today one group a tenant.

    Raises Refused for a tenant whose encoded name is longer than 80 characters, the room that
    collection and alias names leave (and that keeps two long names from meeting by truncation).
    """
    encoded = encode_name(tenant)
    if not encoded or len(encoded) > MAX_ENCODED:
        raise Refused(
            f"tenant names take 1 to {MAX_ENCODED} characters once encoded; this one takes {len(encoded)}",
            where="tenant",
        )
    return encoded


def collection_name(group: str, generation: int) -> str:
    """Collection of one generation. Numbers only go up, so a name is never used twice."""
    return f"{group}.g{generation}"


def alias_name(group: str) -> str:
    """Alias that points at the live collection of a group."""
    return f"{group}.live"


def archive_key(tenant: str, memory_id: str, version: int, created_at: datetime) -> str:
    """Key of the object that holds one version of a memory: `{tenant}/{year}/{month}/{id}.v{version}.json.zst`.

    A long id is cut into folders of 200 characters, which hold no `.`, so that they meet no object; one that grows
    too long by its encoding is written in base32 behind an `@`. `parse_archive_key` gives all of it back. Raises
    Refused for an id that fits neither way (480 bytes always do).
    """
    name = encode_name(memory_id)
    if len(name) > _PLAIN_ID:
        name = "@" + base64.b32encode(memory_id.encode()).decode().rstrip("=").lower()
    if len(name) > _LONGEST_ID + 1:
        raise Refused("the id is too long for the name of an object", where="id")
    parts = [name[start : start + _ID_PART] for start in range(0, len(name), _ID_PART)]
    month = f"{created_at.year:04}/{created_at.month:02}"
    return f"{index_group(tenant)}/{month}/{'/'.join(parts)}.v{version}.json.zst"


def parse_archive_key(key: str) -> tuple[str, str, int] | None:
    """Tenant, id and version that `archive_key` made a key of; None: it made no such key."""
    found = _ARCHIVE_KEY.fullmatch(key)
    if found is None:
        return None
    name = found[3].replace("/", "")
    try:
        if name.startswith("@"):
            padded = name[1:].upper() + "=" * (-len(name[1:]) % 8)
            return decode_name(found[1]), base64.b32decode(padded).decode(), int(found[4])
        return decode_name(found[1]), decode_name(name), int(found[4])
    except ValueError:
        return None
