"""Figures over all tenants, for metrics: counts and ages, no content. Each is one statement with a limit of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from core.model.use import Use
from core.record.database import Database, Row
from core.record.queries import query

MOST_OF_A_TENANT = 100_000


@dataclass(frozen=True, slots=True)
class TenantWork:
    """The queue of one tenant; `oldest` in seconds, None where nothing waits."""

    tenant: str
    waiting: int
    set_aside: int
    oldest: float | None


@dataclass(frozen=True, slots=True)
class Generations:
    """How many generations are in a state, and how many of these the gate refused."""

    state: str
    generations: int
    failed: int


class Census:
    """Asks the figures of one database. Raises Unavailable when one takes longer than `timeout`."""

    def __init__(self, database: Database, timeout: timedelta) -> None:
        self._database = database
        self._timeout = str(int(timeout / timedelta(milliseconds=1)))

    def backlog(self) -> list[TenantWork]:
        """Tenants that have work, most first."""
        return [TenantWork(**row) for row in self._rows("census_backlog", most=MOST_OF_A_TENANT)]

    def use_today(self) -> dict[tuple[str, str], Use]:
        """What embedding took today (UTC), by provider and model."""
        rows = self._rows("census_use")
        return {(row.pop("provider"), row.pop("model")): Use(**row) for row in rows}

    def generations(self) -> list[Generations]:
        """Generations by state."""
        return [Generations(**row) for row in self._rows("census_generations")]

    def archive(self) -> tuple[int, int]:
        """Objects of archived memories, and their bytes."""
        (row,) = self._rows("census_archive")
        return int(row["objects"]), int(row["bytes"])

    def unshipped(self) -> float:
        """Seconds the oldest deletion has waited for the ledger; 0: none waits."""
        (row,) = self._rows("census_unshipped")
        return row["seconds"] or 0.0

    def errors(self) -> dict[tuple[str, str], int]:
        """Errors that ended a task, by task and type."""
        return {(row["task"], row["kind"]): int(row["count"]) for row in self._rows("census_errors")}

    def add_errors(self, counts: Mapping[tuple[str, str], int]) -> None:
        """Add errors to those that are known."""
        values = {
            "tasks": [task for task, _ in counts],
            "kinds": [kind for _, kind in counts],
            "counts": list(counts.values()),
        }
        with self._database.across() as session:
            session.execute(query("census_limit"), {"timeout": self._timeout})
            session.execute(query("task_error_add"), values)

    def _rows(self, name: str, **values: object) -> list[Row]:
        with self._database.across() as session:
            session.execute(query("census_limit"), {"timeout": self._timeout})
            return session.execute(query(name), values).fetchall()


class ErrorCounts:
    """Errors of this process on their way to the record: kept here while it cannot be reached. Not thread-safe."""

    def __init__(self, census: Census) -> None:
        self._census = census
        self._new: Counter[tuple[str, str]] = Counter()

    def add(self, task: str, kind: str) -> None:
        """Note an error."""
        self._new[task, kind] += 1

    def tell(self) -> None:
        """Bring what is noted into the record. Raises as the record does, and keeps it then for the next time."""
        if self._new:
            self._census.add_errors(self._new)
            self._new.clear()
