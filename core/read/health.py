"""Whether what a search needs can be reached: for a service's own health check."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from core.errors import EngineError
from core.ports import VectorIndex
from core.record.database import Database


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """How each store fares: its milliseconds, or why it cannot be reached. `answers`: searches are answered at all."""

    answers: bool
    milliseconds: dict[str, float]
    problems: dict[str, str]


def health_of(database: Database, index: VectorIndex) -> Health:
    """Ask the record and the index something small. Never raises for a store that is out of reach."""
    milliseconds: dict[str, float] = {}
    problems: dict[str, str] = {}
    checks: dict[str, Callable[[], object]] = {"record": lambda: _touch(database), "index": index.collections}
    for name, check in checks.items():
        started = time.monotonic()
        try:
            check()
        except EngineError as problem:
            problems[name] = problem.message
        milliseconds[name] = round((time.monotonic() - started) * 1000, 2)
    return Health(answers="record" not in problems, milliseconds=milliseconds, problems=problems)


def _touch(database: Database) -> None:
    with database.across() as session:
        session.execute("SELECT 1")
