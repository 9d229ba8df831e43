"""Figures over all tenants, for metrics: counts and ages, no content. Each is one statement with a limit of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from core.model.coverage import Coverage, TenantCoverage, by_tenant
from core.model.use import Use
from core.record.database import Database, Row
from core.record.queries import query

MOST_OF_A_QUEUE = 100_000
MOST_EVENTS = 10_000


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

    def coverage(self) -> list[TenantCoverage]:
        """What every tenant has, what waits and when it was compared; those with most work first.

        By the query that people are shown, each count ended at a bound: no queue is read to its end.
        """
        rows = self._rows("coverage", tenants=None, most=MOST_OF_A_QUEUE)
        return by_tenant(Coverage(**row) for row in rows)

    def relay(self) -> tuple[int, float]:
        """Events no stream was given yet, for each tenant counted up to a bound, and seconds since the oldest."""
        (row,) = self._rows("census_relay", most=MOST_EVENTS)
        return int(row["waiting"]), row["seconds"] or 0.0

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
