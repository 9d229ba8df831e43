"""Front matter of a note: a YAML mapping between `---` lines at the very start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time
from typing import Any

import yaml

from core.errors import Refused
from core.write import fields as rules
from core.write.json_values import INT64_MAX, JsonRules, json_object, json_size
from core.write.text import Cleaner, is_blank

MAX_BLOCK_CHARACTERS = 64 * 1024
# What is kept of it is repeated in the metadata of every chunk of the note.
MAX_REST_BYTES = 16 * 1024
_REST = JsonRules(MAX_REST_BYTES, dates_as_text=True)
_FENCE = "---"

# PyYAML lets the errors of Python's own constructors through: ValueError for the 45th of a month,
# KeyError for `!!bool maybe`, AttributeError for `!!timestamp soon`, RecursionError for "[" * 10_000.
_YAML_ERRORS = (
    yaml.YAMLError, ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """What a note says of itself. `rest` holds the keys the engine has no field for, as plain JSON."""

    title: str | None = None
    tags: tuple[str, ...] = ()
    created_at: datetime | None = None
    rest: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Parted:
    """A note's text in two: its front matter, and the body with the line (from 1) it begins on.

    `unread_lines` counts the lines of a closed block at the top of the body that could not be read.
    """

    front: FrontMatter
    body: str
    first_line: int = 1
    unread_lines: int = 0


def part(text: str) -> Parted:
    """Take the front matter off a text whose lines end in `\\n`. Never raises.

    A block that is not closed, or is no YAML mapping, stays in the body, with a warning. A value that
    cannot be used is left out with a warning and costs no other value.
    """
    first, _, after = text.partition("\n")
    if first.rstrip() != _FENCE:
        return Parted(FrontMatter(), text)
    lines = after.split("\n")
    closing = next((number for number, line in enumerate(lines) if line.rstrip() == _FENCE), None)
    if closing is None:
        return _unread(text, 0, "the front matter is never closed")
    block = "\n".join(lines[:closing])
    if len(block) > MAX_BLOCK_CHARACTERS:
        return _unread(text, closing + 2, f"the front matter has more than {MAX_BLOCK_CHARACTERS:,} characters")
    try:
        loaded = yaml.safe_load(block)
    except _YAML_ERRORS:
        return _unread(text, closing + 2, "the front matter is not valid YAML")
    if not isinstance(loaded, dict | None):
        return _unread(text, closing + 2, "the front matter is not a mapping")
    return Parted(_understood(loaded or {}), "\n".join(lines[closing + 1 :]), closing + 3)


def _unread(text: str, lines: int, problem: str) -> Parted:
    return Parted(FrontMatter(warnings=(f"{problem}; it stays in the text",)), text, unread_lines=lines)


def _understood(given: dict[Any, Any]) -> FrontMatter:
    warnings: list[str] = []
    rest = dict(given)
    title = _title(rest, warnings)
    tags = _tags(rest, warnings)
    created_at = _created_at(rest, warnings)
    return FrontMatter(title, tags, created_at, _json(rest, warnings), tuple(warnings))


def _title(rest: dict[Any, Any], warnings: list[str]) -> str | None:
    given = rest.get("title")
    text = _scalar(given)
    if given is not None and text is None:
        warnings.append("the title in the front matter is no text")
        return None
    rest.pop("title", None)
    if text is None or is_blank(text):
        return None
    return Cleaner().clean(text, "title")[: rules.MAX_TITLE_CHARACTERS]


def _tags(rest: dict[Any, Any], warnings: list[str]) -> tuple[str, ...]:
    given = rest.pop("tags", None)
    items = given.split(",") if isinstance(given, str) else given if isinstance(given, list) else [given]
    tags: dict[str, None] = {}
    for number, item in enumerate(items, start=1):
        if item is None:
            continue
        text = _scalar(item)
        try:
            tags[rules.tag(item if text is None else text.strip(), f"tag {number}", Cleaner())] = None
        except Refused as refusal:
            warnings.append(f"a tag in the front matter is left out: {refusal.message}")
    if len(tags) > rules.MAX_TAGS:
        warnings.append(f"the front matter has more than {rules.MAX_TAGS} tags; the others are left out")
    return tuple(tags)[: rules.MAX_TAGS]


def _created_at(rest: dict[Any, Any], warnings: list[str]) -> datetime | None:
    for key in ("date", "created"):
        given = rest.get(key)
        if given is None:
            continue
        try:
            moment = _moment(given, key)
        except Refused as refusal:
            warnings.append(f"the front matter's {refusal.message}")
            continue
        del rest[key]
        return moment
    return None


def _moment(given: object, key: str) -> datetime:
    if isinstance(given, str):
        given = rules.parsed_moment(given.strip(), key)
    elif isinstance(given, date) and not isinstance(given, datetime):
        given = datetime.combine(given, time(), UTC)
    return rules.moment(given, key)


def _json(rest: dict[Any, Any], warnings: list[str]) -> dict[str, Any]:
    """The keys that JSON can say and that there is room for; each one left out costs no other."""
    plain: dict[str, Any] = {}
    room = MAX_REST_BYTES
    for key, value in rest.items():
        try:
            one = json_object({key: value}, "front_matter", Cleaner(), _REST)
        except Refused as refusal:
            warnings.append(f"left out of the metadata: {refusal.message}")
            continue
        room -= json_size(one)
        if room < 0:
            warnings.append(f"left out of the metadata: what is beyond {MAX_REST_BYTES:,} bytes as JSON")
            break
        plain.update(one)
    return plain


def _scalar(value: object) -> str | None:
    """A text, or a number or date as text (`title: 2026` is a title); None for anything else."""
    if isinstance(value, bool) or not isinstance(value, str | int | float | date):
        return None
    if isinstance(value, int) and abs(value) > INT64_MAX:
        return None  # Python prints no integer of thousands of digits
    return value.isoformat() if isinstance(value, date) else str(value)
