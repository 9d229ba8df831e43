"""The rule of each kind of field: the value cleaned, or Refused with its path.

Every rule takes a value of any type, its path, and the Cleaner that remembers which texts were changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, get_args

from core.errors import Refused
from core.model.memory import Source, Tier
from core.write.json_values import INT64_MAX, INT64_MIN, path_of
from core.write.text import Cleaner, has_controls, is_blank

MAX_CONTENT_CHARACTERS = 1_000_000
MAX_TITLE_CHARACTERS = 2_000
MAX_NAME_BYTES = 512
MAX_PATH_BYTES = 4_096
MAX_TAGS = 64
MAX_TAG_BYTES = 256
MAX_LABELS = 64
MAX_LABEL_BYTES = 512

Rule = Callable[[object, str, Cleaner], Any]


def optional(rule: Rule) -> Rule:
    """`rule`, with None let through."""
    return lambda value, where, cleaner: None if value is None else rule(value, where, cleaner)


def text(value: object, where: str, cleaner: Cleaner) -> str:
    """Any text, cleaned."""
    if not isinstance(value, str):
        raise Refused(f"{where} must be text, not {type(value).__name__}", where=where)
    return cleaner.clean(value, where)


def content(value: object, where: str, cleaner: Cleaner) -> str:
    """Text in which there is something to see; otherwise Refused with `reason` "empty"."""
    cleaned = text(value, where, cleaner)
    if is_blank(cleaned):
        raise Refused(f"{where} is empty: there is nothing to remember", where=where, reason="empty")
    if len(cleaned) > MAX_CONTENT_CHARACTERS:
        raise Refused(f"{where} has more than {MAX_CONTENT_CHARACTERS:,} characters", where=where)
    return cleaned


def title(value: object, where: str, cleaner: Cleaner) -> str:
    """Text of bounded length; it may be blank."""
    cleaned = text(value, where, cleaner)
    if len(cleaned) > MAX_TITLE_CHARACTERS:
        raise Refused(f"{where} has more than {MAX_TITLE_CHARACTERS:,} characters", where=where)
    return cleaned


def name(value: object, where: str, cleaner: Cleaner) -> str:
    """Text that is not blank, of at most MAX_NAME_BYTES."""
    return _seen(value, where, cleaner, MAX_NAME_BYTES)


def identifier(value: object, where: str, cleaner: Cleaner) -> str:
    """A name without control characters. U+0000 counts as one: dropping it could make two ids one."""
    if isinstance(value, str) and has_controls(value):
        raise Refused(f"{where} must not hold control characters", where=where)
    return name(value, where, cleaner)


def tag(value: object, where: str, cleaner: Cleaner) -> str:
    """Text that is not blank, of at most MAX_TAG_BYTES."""
    return _seen(value, where, cleaner, MAX_TAG_BYTES)


def tags(value: object, where: str, cleaner: Cleaner) -> tuple[str, ...]:
    """At most MAX_TAGS tags, each as it was given, the first of equal ones kept."""
    if isinstance(value, str | bytes | bytearray) or not isinstance(value, Sequence):
        raise Refused(f"{where} must be a list of texts", where=where)
    given = [tag(item, f"{where}[{index}]", cleaner) for index, item in enumerate(value)]
    distinct = tuple(dict.fromkeys(given))
    if len(distinct) > MAX_TAGS:
        raise Refused(f"{where} holds more than {MAX_TAGS} tags", where=where)
    return distinct


def labels(value: object, where: str, cleaner: Cleaner) -> dict[str, str]:
    """At most MAX_LABELS texts by name. Refused when two names are the same once cleaned."""
    if not isinstance(value, Mapping):
        raise Refused(f"{where} must be an object of texts", where=where)
    if len(value) > MAX_LABELS:
        raise Refused(f"{where} holds more than {MAX_LABELS} labels", where=where)
    plain: dict[str, str] = {}
    for key, item in value.items():
        if not isinstance(key, str):
            raise Refused(f"the keys of {where} must be text", where=where)
        here = path_of(where, key)
        cleaned = _seen(key, here, cleaner, MAX_LABEL_BYTES)
        if cleaned in plain:
            raise Refused(f"two keys of {where} are the same once cleaned", where=here)
        plain[cleaned] = _within(text(item, here, cleaner), here, MAX_LABEL_BYTES)
    return plain


def importance(value: object, where: str, _: Cleaner | None = None) -> float:
    """A finite number within 0..1."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Refused(f"{where} must be a number", where=where)
    if not 0 <= value <= 1:  # NaN is not within either
        raise Refused(f"{where} must be a finite number within 0..1", where=where)
    return float(value) + 0.0  # -0.0 becomes 0.0, as PostgreSQL compares them


def tier(value: object, where: str, cleaner: Cleaner) -> str:
    """One of the tiers a record can be in."""
    named = text(value, where, cleaner)
    if named not in get_args(Tier):
        raise Refused(f"{where} is one of {', '.join(get_args(Tier))}", where=where)
    return named


def flag(value: object, where: str, _: Cleaner | None = None) -> bool:
    """True or False, and nothing that only looks like it."""
    if not isinstance(value, bool):
        raise Refused(f"{where} must be true or false", where=where)
    return value


def position(value: object, where: str, _: Cleaner | None = None) -> int:
    """An integer of 64 bits."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise Refused(f"{where} must be an integer", where=where)
    if not INT64_MIN <= value <= INT64_MAX:
        raise Refused(f"{where} is an integer beyond 64 bits", where=where)
    return int(value)


def moment(value: object, where: str, _: Cleaner | None = None) -> datetime:
    """A time in UTC; a naive one is taken as UTC."""
    if not isinstance(value, datetime):
        raise Refused(f"{where} must be a date and time", where=where)
    try:
        aware = value.replace(tzinfo=UTC) if value.utcoffset() is None else value.astimezone(UTC)
        # Rebuilt, because subclasses (pandas' NaT is one) compare and print in their own way.
        return datetime(
            aware.year, aware.month, aware.day, aware.hour, aware.minute, aware.second, aware.microsecond, UTC
        )
    except (OverflowError, ValueError, TypeError) as error:
        raise Refused(f"{where} is no time between the years 1 and 9999", where=where) from error


def parsed_moment(iso: str, where: str) -> datetime:
    """The time an ISO 8601 text says, naive if it names no zone; a date alone is its midnight."""
    try:
        return datetime.fromisoformat(iso[:-1] + "Z" if iso.endswith("z") else iso)
    except ValueError:
        # The parser's own words would quote the text.
        raise Refused(f"{where} is no ISO 8601 date and time", where=where) from None


def source(value: object, where: str, cleaner: Cleaner) -> Source:
    """A Source with a path and a range of lines that counts upwards from 1."""
    if not isinstance(value, Source):
        raise Refused(f"{where} must name a path, a first and a last line", where=where)
    path = _seen(value.path, f"{where}.path", cleaner, MAX_PATH_BYTES)
    first = position(value.first_line, f"{where}.first_line")
    last = position(value.last_line, f"{where}.last_line")
    if not 1 <= first <= last:
        raise Refused(f"the lines of {where} must count upwards from 1", where=f"{where}.first_line")
    return Source(path=path, first_line=first, last_line=last)


def _seen(value: object, where: str, cleaner: Cleaner, max_bytes: int) -> str:
    cleaned = text(value, where, cleaner)
    if is_blank(cleaned):
        raise Refused(f"{where} must not be blank", where=where)
    return _within(cleaned, where, max_bytes)


def _within(cleaned: str, where: str, max_bytes: int) -> str:
    if len(cleaned.encode()) > max_bytes:
        raise Refused(f"{where} takes more than {max_bytes:,} bytes", where=where)
    return cleaned
