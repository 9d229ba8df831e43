"""Names under which a tenant's things stand in the other stores.

The encoding is injective, reversible and safe on case-folding file systems: letters a–z, digits
and `-` stand for themselves, every other UTF-8 byte becomes `_` and two lower-case hex digits. The
result never holds `.`, `/` or `@`, which separate its parts, so no name can leave its prefix.
"""

from __future__ import annotations

import re

from core.errors import Refused

MAX_ENCODED = 80
_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789-")
_ESCAPE = re.compile(r"_([0-9a-f]{2})")


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
