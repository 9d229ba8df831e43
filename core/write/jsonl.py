"""JSON Lines to drafts, one line at a time: a broken line is reported and the rest goes on."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from core.errors import Refused
from core.model.memory import Draft
from core.write.gate import draft_of

MAX_LINE_BYTES = 4 * 1024 * 1024
_DRAINED_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Line:
    """One line that is not blank, counted from 1: its draft, or the problem that kept it from being one.

    A problem names places and keys, never what the memory says.
    """

    number: int
    draft: Draft | None
    problem: str | None


def read_lines(path: Path) -> Iterator[Line]:
    """The lines of a file in order, at most one of them in memory.

    Only `\\n` ends a line (U+2028 and U+0085 are content), a `\\r` before it and a byte order mark at
    the start are dropped, blank lines are passed over. The drafts still have to pass `gate.admit`.
    Raises Refused when the file cannot be opened.
    """
    try:
        file = path.open("rb")
    except OSError as error:
        raise Refused(f"{path} cannot be read: {error.strerror}", where=str(path)) from error
    with file:
        for number, line in enumerate(_raw_lines(file), start=1):
            if line is None:
                yield Line(number, None, f"the line is longer than {MAX_LINE_BYTES:,} bytes")
                continue
            text = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
            if text.strip():
                yield _line(number, text)


def _raw_lines(file: BinaryIO) -> Iterator[bytes | None]:
    """Each line without its end; None for one that is too long."""
    # Two bytes more than a line may have: its end.
    while line := file.readline(MAX_LINE_BYTES + 2):
        whole = line.endswith(b"\n")
        text = line.removesuffix(b"\n").removesuffix(b"\r") if whole else line
        yield text if len(text) <= MAX_LINE_BYTES else None
        while not whole and (line := file.readline(_DRAINED_BYTES)):
            whole = line.endswith(b"\n")


def _line(number: int, line: bytes) -> Line:
    try:
        return Line(number, draft_of(_object(line)), None)
    except Refused as refusal:
        return Line(number, None, refusal.message)


def _object(line: bytes) -> dict[str, Any]:
    """The JSON object a line holds. Raises Refused, without a word of the line, when it holds none."""
    try:
        value = json.loads(line.decode(), parse_constant=_no_constant, object_pairs_hook=_without_repeats)
    except UnicodeDecodeError as error:
        raise Refused(f"not valid UTF-8 at byte {error.start + 1}") from None
    except json.JSONDecodeError as error:
        raise Refused(f"not valid JSON at character {error.pos + 1}") from None
    except RecursionError:
        raise Refused("nested too deep") from None
    except ValueError:
        raise Refused("holds an integer of too many digits") from None
    if not isinstance(value, dict):
        raise Refused("not a JSON object")
    return value


def _no_constant(name: str) -> None:
    raise Refused(f"{name} is not JSON")


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object from its pairs. A key given twice is refused: which of the values is meant?"""
    plain = dict(pairs)
    if len(plain) < len(pairs):
        raise Refused("a key stands twice in one object")
    return plain
