"""What a reindex is asked for, how far it is, and what its gate said."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from core.model.generation import Generation, GenerationState
from core.model.names import collection_name
from core.model.space import EmbeddingSpace


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a generation that is being built is.

    `behind`: enqueued before the last range was fed, and not done. `in_jobs`: of what waits, held for batch jobs.
    """

    ranges: int
    open: int
    fed: int
    waiting: int
    backfill: int
    set_aside: int
    behind: int
    in_jobs: int = 0

    @property
    def caught_up(self) -> bool:
        """All that was there when the last range ended has been brought; what came later waits as for any index."""
        return self.ranges > 0 and self.open == 0 and self.behind == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One question of the gate: its figure beside its bound. `passed` is what was decided from them."""

    name: str
    passed: bool
    figure: float | None = None
    bound: float | None = None
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GateVerdict:
    """What the gate said of a generation. Passed: every check that is due was made and passed, over some rows."""

    checks: tuple[Check, ...]
    at: datetime

    @property
    def passed(self) -> bool:
        """A check that is missing fails the gate, as one that raised does."""
        made = {check.name for check in self.checks}
        return made >= GATE_CHECKS and all(check.passed for check in self.checks)

    @property
    def reasons(self) -> str:
        """The checks that failed or are missing, with their figures, in words."""
        missing = [f"{name}: not made" for name in sorted(GATE_CHECKS - {check.name for check in self.checks})]
        return "; ".join([*missing, *(_told(check) for check in self.checks if not check.passed)])

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values, as the record keeps them."""
        checks = [
            {
                "name": one.name,
                "passed": one.passed,
                "figure": one.figure,
                "bound": one.bound,
                "note": one.note,
            }
            for one in self.checks
        ]
        return {"passed": self.passed, "at": self.at.isoformat(), "checks": checks}


def verdict_of(stored: Mapping[str, Any]) -> GateVerdict:
    """The verdict the record keeps."""
    checks = tuple(Check(**one) for one in stored["checks"])
    return GateVerdict(checks=checks, at=datetime.fromisoformat(stored["at"]))


# What every verdict has to answer. Real queries are asked too when there are any.
GATE_CHECKS = frozenset({"records", "agreement", "set aside", "payloads", "vectors", "probes", "overlap", "latency"})


@dataclass(frozen=True, slots=True, kw_only=True)
class GateBounds:
    """What a generation has to reach.

    set_aside: share of the records that may be set aside. overlap: mean share of the first ten hits that the
    live generation has too. slower: how many times the live generation's median search it may take, where it
    takes longer than `fast_enough` milliseconds. sample: points whose payload and vector are looked at;
    probes: of these, how many are searched for.
    """

    set_aside: float = 0.001
    overlap: float = 0.2
    slower: float = 3.0
    fast_enough: float = 30.0
    sample: int = 1000
    probes: int = 50


class SwapOutcome(StrEnum):
    """What came of a swap: done by us, or the generation was live already (another run was first)."""

    SWAPPED = "swapped"
    ALREADY = "already live"


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationStatus:
    """One generation with what waits for it, for people to look at."""

    tenant: str
    number: int
    index_group: str
    state: GenerationState
    space: EmbeddingSpace
    verdict: GateVerdict | None
    reason: str | None
    registered_at: datetime
    changed_at: datetime
    retire_at: datetime | None
    running: bool
    waiting: int
    set_aside: int
    fed: int
    ranges_left: int

    @property
    def collection(self) -> str:
        """Name of its collection."""
        return collection_name(self.index_group, self.number)


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    """The generation a reindex builds. `live` is the one that serves meanwhile; `resumed`: it was begun before."""

    generation: Generation
    live: Generation
    resumed: bool


def _told(check: Check) -> str:
    figure = "" if check.figure is None else f" {check.figure:g}"
    bound = "" if check.bound is None else f" (bound {check.bound:g})"
    note = f", {check.note}" if check.note else ""
    return f"{check.name}{figure}{bound}{note}"
