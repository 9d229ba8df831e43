"""What commands say: tables and lines for people on standard output, or one JSON document with `--json`.

Errors go to standard error, as one line or as JSON, and decide the exit code.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, is_dataclass
from datetime import datetime
from enum import Enum, IntEnum
from pathlib import Path
from typing import Any
from uuid import UUID

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from core.errors import EngineError, Misconfigured, Refused, Transient
from core.model.memory import Memory

LINE_CHARACTERS = 100
FILE_CHARACTERS = 400


class Exit(IntEnum):
    """What the exit code says."""

    DONE = 0
    FAILED = 1
    WRONG_USE = 2
    IN_PART = 3
    INTERRUPTED = 130


def say(text: str) -> None:
    """A line for people, as it stands: what it quotes is never read as markup."""
    console().print(text, markup=False, highlight=False, soft_wrap=True)


def hint(text: str) -> None:
    """A line beside the result, on standard error."""
    error_console().print(text, markup=False, highlight=False, soft_wrap=True)


def show_json(value: object) -> None:
    """One JSON document on standard output."""
    sys.stdout.write(json.dumps(value, default=_plain, ensure_ascii=False, indent=2) + "\n")


def show_json_line(value: object) -> None:
    """One JSON document on a line of its own, at once: for commands that go on."""
    sys.stdout.write(json.dumps(value, default=_plain, ensure_ascii=False) + "\n")
    sys.stdout.flush()


def show_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """A table for people; numbers stand to the right, and a last column that is too long is cut."""
    lines = [list(row) for row in rows]
    table = Table(box=None, pad_edge=False, header_style="bold")
    for number, column in enumerate(columns):
        numeric = bool(lines) and all(isinstance(line[number], int | float) for line in lines)
        last = number == len(columns) - 1
        table.add_column(
            column,
            justify="right" if numeric else "left",
            overflow="ellipsis" if last else "fold",
            no_wrap=last or numeric,
        )
    for line in lines:
        table.add_row(*[escape(_cell(value)) for value in line])
    console().print(table, highlight=False)


def console() -> Console:
    """Standard output as it is now (tests replace it). A file or pipe gets lines as long as they are."""
    found = Console(file=sys.stdout)
    return found if found.is_terminal else Console(file=sys.stdout, width=FILE_CHARACTERS)


def error_console() -> Console:
    """Standard error as it is now."""
    return Console(file=sys.stderr)


def memory_as_dict(memory: Memory) -> dict[str, Any]:
    """A memory with its fields by name, without those that are empty."""
    return {name: value for name, value in asdict(memory).items() if value not in (None, (), {})}


def first_line(text: str, characters: int = LINE_CHARACTERS) -> str:
    """The first line of a text that says something, without Markdown's marks of a heading, cut to a width."""
    line = next((line.strip().lstrip("# ") for line in text.splitlines() if line.strip("# ")), "")
    return line if len(line) <= characters else line[: characters - 1].rstrip() + "…"


def report_error(problem: EngineError, *, as_json: bool) -> Exit:
    """Say what went wrong, in one line and what to do about it; the exit code that follows."""
    code = Exit.WRONG_USE if isinstance(problem, Refused) else Exit.FAILED
    where = str(problem.details.get("where", ""))
    if as_json:
        error = {"kind": type(problem).__name__, "message": problem.message, "where": where or None}
        report_json_error({name: value for name, value in error.items() if value is not None})
        return code
    hint(f"{where}: {problem.message}" if where and where not in problem.message else problem.message)
    if isinstance(problem, Misconfigured):
        hint("This is for you to set right (MEMORY_* in the environment, memory.toml); then run it again.")
    elif isinstance(problem, Transient):
        hint("Nothing is lost; run it again in a moment.")
    return code


def report_json_error(error: Mapping[str, object]) -> None:
    """An error as a JSON document on standard error."""
    sys.stderr.write(json.dumps({"error": dict(error)}, ensure_ascii=False) + "\n")


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, datetime):
        return value.isoformat(timespec="minutes", sep=" ").removesuffix("+00:00")
    if isinstance(value, float):
        return f"{value:.1f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _plain(value: object) -> object:
    """What json.dumps does not know."""
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, UUID | Path):
        return str(value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, set | frozenset | tuple):
        return list(value)
    raise TypeError(f"{type(value).__name__} has no form in JSON")
