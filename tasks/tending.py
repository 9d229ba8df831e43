"""The resident loop: chores that are cheap when there is nothing to do, each as often as it needs.

It starts no run and no process for a chore, so it can look every second or two. What goes wrong with one chore is
told, makes its pauses longer, and touches no other.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial

from core.assembly import Engine
from core.batch import batch_lane
from core.batch.embed import Portion, Report, step
from core.errors import EngineError, Transient
from core.index.budget import Budget
from core.settings import Settings
from tasks.boundary import place
from tasks.engine import check_not_stopping, engine_kept_open, shared_engine
from tasks.events import Happened, tell, tell_set_aside
from tasks.mending import mend_what_differs, tell_events

Logger = logging.Logger | logging.LoggerAdapter[logging.Logger]

# The longest pause after failures, which double it: after an outage work begins again within this time.
LONGEST_PAUSE = 60.0
# The engine is opened anew this often, with the settings as they are then: budgets of a run begin again.
ENGINE_KEPT = 3600.0
# Tenants of one look, a portion each, so that the other chores have their turn during a bulk load.
PORTIONS = 4
SHIP_EVERY = timedelta(seconds=60)
JOBS_EVERY = timedelta(seconds=120)
TELL_EVERY = timedelta(seconds=5)


@dataclass(frozen=True, slots=True)
class Tended:
    """A chore of the loop. `do` is one bounded look, and says in a few words what it did ("": nothing)."""

    name: str
    every: timedelta
    do: Callable[[Engine], str]


@dataclass(slots=True)
class _Turn:
    """When a chore is due, and how often in a row it failed."""

    chore: Tended
    due: float
    failed: int = 0

    def ended(self, now: float, *, well: bool) -> None:
        """Put the next look where it belongs: after the usual pause, or a longer one."""
        self.failed = 0 if well else self.failed + 1
        pause = self.chore.every.total_seconds()
        self.due = now + (pause if well else max(pause, min(LONGEST_PAUSE, pause * 2 ** min(self.failed, 16))))


def chores_of(settings: Settings) -> tuple[Tended, ...]:
    """What the loop does."""
    return (
        Tended("embed", settings.tend_every, Embedding()),
        Tended("ship deletions", SHIP_EVERY, ship_what_was_deleted),
        Tended("batch jobs", JOBS_EVERY, look_at_batch_jobs),
        Tended("drift", settings.reconcile_every, mend_what_differs),
        Tended("events", TELL_EVERY, tell_events),
    )


def watching(settings: Settings, tenants: Sequence[str] | None) -> tuple[Tended, ...]:
    """What keeps indexes (of all tenants, or those named) in step with the record, and no more than that."""
    return (
        Tended("drift", settings.reconcile_every, partial(mend_what_differs, tenants=tenants)),
        Tended("embed", settings.tend_every, Embedding(tenants)),
    )


def tend(
    chores: Sequence[Tended], stop: threading.Event, clock: Callable[[], float], until: float, logger: Logger
) -> int:
    """Do each chore when it is due, until `stop` is set or the clock says `until`; how many looks it took.

    The engine is open meanwhile, and closed after a failure, so that the next look finds whatever is there by then.
    """
    turns = [_Turn(one, clock()) for one in chores]
    looks = 0
    with ExitStack() as kept:
        opened = clock()
        kept.enter_context(engine_kept_open())
        while not stop.is_set() and clock() < until:
            turn = min(turns, key=lambda one: one.due)
            if (pause := min(turn.due, until) - clock()) > 0:
                stop.wait(pause)
                continue
            well = _look(turn.chore, logger)
            looks += 1
            turn.ended(clock(), well=well)
            if not well or clock() - opened > ENGINE_KEPT:
                kept.close()
                opened = clock()
                kept.enter_context(engine_kept_open())
    return looks


def _look(chore: Tended, logger: Logger) -> bool:
    """One look. False: it failed, which was told by type and place; messages of unknown errors may quote content."""
    try:
        with shared_engine() as engine:
            if said := chore.do(engine):
                logger.info("%s: %s", chore.name, said)
    except EngineError as problem:
        logger.warning("%s: %s: %s", chore.name, type(problem).__name__, problem.message)
        return False
    except Exception as problem:  # noqa: BLE001  the loop's own boundary: one chore's fault ends no other
        logger.error("%s: unforeseen %s at %s", chore.name, type(problem).__name__, place(problem))  # noqa: TRY400
        return False
    return True


class Embedding:
    """Brings some of what waits into the indexes, tenants (all, or those named) in turn.

    Bulk loads are begun and ended by runs. That a budget is used up is told once, not with every look until work goes
    on.
    """

    def __init__(self, tenants: Sequence[str] | None = None) -> None:
        self._tenants = tenants
        self._told: set[str] = set()

    def __call__(self, engine: Engine) -> str:
        """One look. Raises Transient when a tenant's work is left and nothing of it was done."""
        work = replace(engine.embed_work(), check=check_not_stopping)
        worked, told = 0, []
        for tenant in engine.claimable(PORTIONS, self._tenants):
            check_not_stopping()
            report = step(work, Portion(tenant=tenant, records=engine.settings.embed_portion))
            worked += report.worked
            self._tell(report, work.budget)
            if report.set_aside_count:
                told.append(f"{report.set_aside_count} of {tenant} set aside")
            if report.postponed:
                told.append(f"{tenant} left: {report.postponed}")
                if not report.worked:
                    raise Transient(", ".join(told))
        return ", ".join(([f"{worked} entries"] if worked else []) + told)

    def _tell(self, report: Report, budget: Budget | None) -> None:
        tell_set_aside(report.tenant, report.set_aside_count)
        reached = budget.used_up() if report.postponed and budget is not None else None
        if reached is None:
            self._told.discard(report.tenant)
        elif report.tenant not in self._told:
            self._told.add(report.tenant)
            tell(Happened.BUDGET_REACHED, report.tenant, budget=reached)


def ship_what_was_deleted(engine: Engine) -> str:
    """Write deletions to the ledger on the object store."""
    shipped = engine.safekeeping.ledger().ship()
    engine.safekeeping.end_recoveries()
    return f"{shipped} written to the ledger" if shipped else ""


def look_at_batch_jobs(engine: Engine) -> str:
    """Look at every open batch job once, keep what came, and drop what nobody needs any more."""
    jobs = engine.batch_jobs(open_only=True)
    work = replace(engine.batch_work(), check=check_not_stopping)
    kept = 0
    for job in jobs[::-1]:
        found = batch_lane.follow(work, job)
        kept += found.kept
        tell_set_aside(job.tenant, found.refused)
    for tenant in sorted({job.tenant for job in jobs}):
        batch_lane.sweep(work, tenant)
    return f"{len(jobs)} open, {kept} vectors kept" if jobs else ""
