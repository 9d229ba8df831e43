"""JSON objects on their way in: plain, finite, bounded, and never two keys fallen into one."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

from core.errors import Refused
from core.write.text import Cleaner, clean_text

MAX_DEPTH = 32
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
_SHOWN_KEY = 60


@dataclass(frozen=True, slots=True)
class JsonRules:
    """What an object may be: its size as compact JSON, and whether dates are taken, as ISO 8601 text."""

    max_bytes: int
    dates_as_text: bool = False


METADATA = JsonRules(max_bytes=256 * 1024)


def json_object(value: object, where: str, cleaner: Cleaner, rules: JsonRules = METADATA) -> dict[str, Any]:
    """`value` as a plain dict of plain JSON values, its texts and keys cleaned; tuples become lists.

    Raises Refused, with the path of the offender, for what is not a mapping, for values JSON cannot
    say (NaN and infinities included), integers beyond 64 bits, keys that are no text or that fall
    together once cleaned, nesting deeper than MAX_DEPTH and more than `rules.max_bytes`.
    """
    plain = _Walk(cleaner, rules, where).mapping(value, where, 1)
    if json_size(plain) > rules.max_bytes:
        raise _too_big(where, rules)
    return plain


def json_size(plain: dict[str, Any]) -> int:
    """Bytes of a plain object as compact JSON in UTF-8."""
    return len(json.dumps(plain, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode())


def path_of(where: str, key: str) -> str:
    """Path of a key below `where`, printable and short whatever the key is."""
    shown = clean_text(key)
    return f"{where}.{shown if len(shown) <= _SHOWN_KEY else shown[:_SHOWN_KEY] + '…'}"


def _too_big(where: str, rules: JsonRules) -> Refused:
    return Refused(f"{where} takes more than {rules.max_bytes:,} bytes as JSON", where=where)


class _Walk:
    """One pass over a value. `_room` ends it early: shared parts of a small value can unfold without end."""

    def __init__(self, cleaner: Cleaner, rules: JsonRules, root: str) -> None:
        self._cleaner = cleaner
        self._rules = rules
        self._root = root
        self._room = rules.max_bytes

    def mapping(self, value: object, where: str, depth: int) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise Refused(f"{where} must be a JSON object", where=where)
        self._enter(where, depth)
        plain: dict[str, Any] = {}
        for key, item in value.items():
            if not isinstance(key, str):
                raise Refused(f"the keys of {where} must be text", where=where)
            here = path_of(where, key)
            cleaned = self._text(key, here)
            if cleaned in plain:
                raise Refused(f"two keys of {where} are the same once cleaned", where=here)
            plain[cleaned] = self._value(item, here, depth)
        return plain

    def _value(self, value: object, where: str, depth: int) -> Any:
        self._spend(1)
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return self._text(value, where)
        if isinstance(value, int):
            return _integer(value, where)
        if isinstance(value, float):
            return _finite(value, where)
        if isinstance(value, list | tuple):
            self._enter(where, depth + 1)
            return [self._value(item, f"{where}[{index}]", depth + 1) for index, item in enumerate(value)]
        if isinstance(value, date) and self._rules.dates_as_text:
            return value.isoformat()
        if isinstance(value, Mapping):
            return self.mapping(value, where, depth + 1)
        raise Refused(f"{where} is a {type(value).__name__}, which JSON has no way to say", where=where)

    def _text(self, text: str, where: str) -> str:
        cleaned = self._cleaner.clean(text, where)
        self._spend(len(cleaned) + 2)
        return cleaned

    def _enter(self, where: str, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise Refused(f"{self._root} is nested more than {MAX_DEPTH} deep", where=where)

    def _spend(self, characters: int) -> None:
        self._room -= characters
        if self._room < 0:
            raise _too_big(self._root, self._rules)


def _integer(value: int, where: str) -> int:
    if not INT64_MIN <= value <= INT64_MAX:
        raise Refused(f"{where} is an integer beyond 64 bits", where=where)
    return int(value)


def _finite(value: float, where: str) -> float:
    if not math.isfinite(value):
        raise Refused(f"{where} is not a finite number", where=where)
    return float(value)
