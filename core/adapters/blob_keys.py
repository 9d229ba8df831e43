"""The rule for keys of objects, the same in every store."""

from __future__ import annotations

import unicodedata

from core.errors import Refused

UNFINISHED = ".uploads"  # where stores keep what is not whole yet; SeaweedFS lists nothing below it
MAX_KEY_BYTES = 900  # S3 takes 1,024, the store's own prefix included
MAX_PART_BYTES = 255  # what file systems take; SeaweedFS has the same limit


def checked(key: str) -> str:
    """The key, if it means the same object in every store; else Refused."""
    broken = broken_rule(key)
    if broken is not None:
        raise Refused(f"not a key of an object: {broken}", where="key")
    return key


def checked_prefix(prefix: str) -> str:
    """The prefix, if it is empty or a folder of keys, ending in `/`; else Refused."""
    if prefix:
        checked(prefix.removesuffix("/"))
        if not prefix.endswith("/"):
            raise Refused("a prefix to list is a folder: it ends in `/`", where="prefix")
    return prefix


def broken_rule(key: str) -> str | None:
    """Which rule a key breaks, if any."""
    if any(unicodedata.category(character) in {"Cc", "Cs"} for character in key):
        return "a control character or a lone surrogate is in it"
    if "\\" in key:
        return "a backslash is in it, which SeaweedFS reads as a slash"
    if len(key.encode()) > MAX_KEY_BYTES:
        return f"it is longer than {MAX_KEY_BYTES} bytes"
    for part in key.split("/"):
        if part in {"", ".", "..", UNFINISHED}:
            return f"a part of it is {part!r}"
        if len(part.encode()) > MAX_PART_BYTES:
            return f"a part of it is longer than {MAX_PART_BYTES} bytes"
    return None
