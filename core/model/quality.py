"""Quality gates: what has to hold of the records, the indexes and the archive, as data; and what a check of it said.

A frame holds ids, counts and truths about a sample, never content. Its rows are judged by one suite; a suite over
no rows fails, and so does one that misses a tenant it is due for, or a check that was not made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol

MOST_VERSION = 2.0**53 - 1


class Suite(StrEnum):
    """What is looked at."""

    IMPORTED = "imported"
    EMBEDDED = "embedded"
    GENERATION = "generation"
    ARCHIVE = "archive"


class Ask(StrEnum):
    """What a rule asks of a column. `ROWS` and `TENANTS` are asked of every frame."""

    ROWS = "rows"
    TENANTS = "tenants"
    FILLED = "filled"
    UNIQUE = "unique"
    AMONG = "among"
    BETWEEN = "between"


@dataclass(frozen=True, slots=True)
class Rule:
    """One expectation. `values` for AMONG and TENANTS, `low` and `high` for BETWEEN (ROWS: `low`)."""

    ask: Ask
    column: str = ""
    values: tuple[Any, ...] = ()
    low: float | None = None
    high: float | None = None

    @property
    def name(self) -> str:
        """What it is called in reports."""
        return f"{self.column} {self.ask}".strip()


def _true(*columns: str) -> tuple[Rule, ...]:
    return tuple(Rule(Ask.AMONG, column, (True,)) for column in columns)


RULES: Mapping[Suite, tuple[Rule, ...]] = {
    Suite.IMPORTED: (
        Rule(Ask.UNIQUE, "point"),
        Rule(Ask.BETWEEN, "version", low=1, high=MOST_VERSION),
        Rule(Ask.BETWEEN, "importance", low=0, high=1),
        Rule(Ask.AMONG, "tier", ("warm", "cold", "archive")),
        *_true("point_is_its_own", "has_text", "scope_is_given", "type_is_given"),
    ),
    Suite.EMBEDDED: (
        Rule(Ask.UNIQUE, "point"),
        Rule(Ask.BETWEEN, "length", low=0.999, high=1.001),
        *_true("is_there", "version_agrees", "width_agrees", "is_finite", "payload_is_its_own"),
    ),
    Suite.GENERATION: _true("was_made", "passed"),
    Suite.ARCHIVE: (
        Rule(Ask.UNIQUE, "key"),
        Rule(Ask.AMONG, "kind", ("object", "snapshot")),
        *_true("is_there", "is_as_written", "name_agrees"),
    ),
}


@dataclass(frozen=True, slots=True)
class Frame:
    """A bounded sample for one suite: columns of equal length, `tenant` among them; the tenants that must be in it.

    `problems` says by tenant why nothing could be looked at.
    """

    suite: Suite
    columns: Mapping[str, Sequence[Any]]
    due: tuple[str, ...]
    problems: Mapping[str, str] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """How many rows it has."""
        return len(self.columns["tenant"])


def frame_of(
    suite: Suite, rows: Sequence[Mapping[str, Any]], due: Sequence[str], problems: Mapping[str, str] | None = None
) -> Frame:
    """The rows as columns: those the suite's rules ask for, the tenant and the id, also where there are no rows."""
    names = dict.fromkeys(("tenant", "id", *(rule.column for rule in RULES[suite])))
    columns = {name: [row.get(name) for row in rows] for name in names}
    return Frame(suite, columns, tuple(due), problems or {})


def rules_of(frame: Frame) -> tuple[Rule, ...]:
    """All that is asked of a frame: rows, the tenants that are due, every column filled, and the suite's own rules."""
    own = RULES[frame.suite]
    filled = tuple(Rule(Ask.FILLED, column) for column in dict.fromkeys(rule.column for rule in own))
    return (Rule(Ask.ROWS, low=1), Rule(Ask.TENANTS, "tenant", frame.due), *filled, *own)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What one rule came to: how many rows break it, and whose they are (the first few)."""

    name: str
    passed: bool
    failed: int = 0
    tenants: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteVerdict:
    """What a suite said of a frame. `asked` are the names of the rules that had to be checked."""

    suite: Suite
    rows: int
    asked: tuple[str, ...]
    checks: tuple[Checked, ...]
    problems: Mapping[str, str] = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        """Every rule was checked and holds, over some rows, and every tenant that is due could be looked at."""
        made = {check.name for check in self.checks}
        sound = self.rows > 0 and bool(self.asked) and made >= set(self.asked) and not self.problems
        return sound and all(check.passed for check in self.checks)

    @property
    def reasons(self) -> str:
        """What failed or is missing, in words; empty: nothing."""
        made = {check.name for check in self.checks}
        told = [f"{tenant}: {problem}" for tenant, problem in self.problems.items()]
        told += [] if self.rows else ["no rows"]
        told += [f"{name}: not checked" for name in self.asked if name not in made]
        told += [_told(check) for check in self.checks if not check.passed]
        return "; ".join(told)


class Checker(Protocol):
    """Who judges frames and keeps the results for people to read."""

    def judge(self, frames: Sequence[Frame], now: datetime) -> tuple[list[SuiteVerdict], str]:
        """A verdict a frame, and where the results can be read. Raises Unavailable when they cannot be kept."""


def _told(check: Checked) -> str:
    count = f" ({check.failed} rows)" if check.failed else ""
    whose = f" of {', '.join(check.tenants)}" if check.tenants else ""
    return f"{check.name}{count}{whose}"
