"""The reindex flow: one tenant after the other to another model, fed and embedded in turn, verified, swapped.

By batch jobs it ends when only the provider has still to do: the flow `batch lane` keeps what comes, and the same
reindex, run again, goes on.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Any, Literal

from prefect import State, flow, runtime
from prefect.states import Completed, Failed
from prefect.task_runners import TaskRunner
from pydantic import Field

from core.batch.batch_lane import Submitting
from core.batch.embed import Portion
from core.batch.reindex import Job, Report
from core.errors import Busy, EngineError, Misconfigured, Permanent, Refused
from core.index.estimate import Estimate
from core.model.reindex import GateVerdict, SwapOutcome
from core.model.use import MILLION, money_of
from core.settings import Settings
from tasks.batch_lane import PIECE, submit_batch_jobs
from tasks.embed import embed_portion
from tasks.engine import engine_kept_open, stop_soon
from tasks.events import Happened, tell
from tasks.quality import judge_before_swap
from tasks.reindex import (
    Lane,
    Priced,
    begin_reindex,
    estimate_reindex,
    feed_reindex,
    leave_reindex,
    plan_reindex,
    swap_reindex,
    verify_reindex,
)
from tasks.runner import ChosenRunner
from tasks.seen import Progress, key_of, mark_run, reasons_of, show_table, whose

# Rounds in which nothing moves, a second each, before the run leaves the rest to a later one.
IDLE_ROUNDS = 30
# How often more is fed and embedded for one tenant, at the most.
ROUNDS = 1_000_000
# A gate that failed for what it mended itself is worth another try.
GATES = 2

_RUNNER: TaskRunner[Any] = ChosenRunner()


class Ending(StrEnum):
    """What a run came to for one tenant."""

    SWAPPED = "swapped"
    ALREADY = "already there"
    SKIPPED = "skipped: under way elsewhere"
    VERIFIED = "verified, not swapped"
    FAILED_GATE = "did not pass the gate"
    BUDGET = "budget reached"
    WAITING = "still waiting"
    IN_JOBS = "waits for batch jobs"
    FAILED = "failed"


DONE = frozenset({Ending.SWAPPED, Ending.ALREADY, Ending.VERIFIED, Ending.SKIPPED})


@dataclass(slots=True)
class TenantReindex:
    """What the flow did for one tenant."""

    tenant: str
    ending: Ending = Ending.WAITING
    generation: int | None = None
    estimate: Estimate | None = None
    fed: int = 0
    set_aside: int = 0
    reasons: list[str] = field(default_factory=list)
    tokens: int = 0
    price: float | None = None
    seconds: float = 0.0
    verdict: GateVerdict | None = None
    refused: str = ""
    problem: EngineError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What the run was asked for."""

    model: str
    dimensions: int | None
    at_rate: int | None
    max_cost: float | None
    swap: bool
    grace: timedelta | None
    lane: Lane


@dataclass(slots=True)
class Purse:
    """What may still be spent, over all tenants of the run; None: as much as it takes."""

    left: float | None
    spent: dict[str, float] = field(default_factory=dict)
    before: dict[str, int] = field(default_factory=dict)

    def room(self, tenant: str, priced: Priced, report: Report) -> int | None:
        """How many records may still be fed, by what a record takes on average; None: no limit."""
        if self.left is None or not priced.price:
            return None
        tokens = report.tokens - self.before.setdefault(tenant, report.tokens)  # earlier runs' are not ours
        self.spent[tenant] = tokens * priced.price / MILLION
        one = (priced.money or 0.0) / max(1, priced.estimate.records - priced.estimate.reusable)
        under_way = report.progress.waiting * one
        return max(0, int((self.left - sum(self.spent.values()) - under_way) / one)) if one else None


def run_name() -> str:
    """What the run is called until its tenants are known."""
    given = runtime.flow_run.parameters
    return f"reindex to {given.get('model')}: {whose(given.get('tenants'))}"


@flow(name="reindex", flow_run_name=run_name, task_runner=_RUNNER, persist_result=False)
def reindex(  # noqa: PLR0913, PLR0917  the parameters of a form
    model: Annotated[
        str, Field(min_length=1, description="Name of a model in embedding_models, or of the provider in the settings")
    ],
    tenants: Annotated[list[str] | None, Field(description="Only these tenants; none given: all of them")] = None,
    dimensions: Annotated[int | None, Field(ge=1, description="Another width than the model's own")] = None,
    at_rate: Annotated[int | None, Field(ge=1, description="Records a second, at the most")] = None,
    max_cost: Annotated[float | None, Field(ge=0, description="US dollars, at the most, at the model's price")] = None,
    swap: Annotated[bool, Field(description="Swap when the gate is passed; else a person looks first")] = True,
    grace_hours: Annotated[float | None, Field(ge=0, description="How long the old index is kept")] = None,
    lane: Annotated[
        Literal["online", "batch"],
        Field(description="batch: by the provider's batch jobs, at half the price; run it again once they have ended"),
    ] = "online",
) -> State[list[TenantReindex]]:
    """Move tenants to another embedding model, while reads, writes and deletes go on.

    Can be stopped, killed and run again: it goes on where it was. One result a tenant; a tenant that fails does
    not stop the others: the run ends Failed then, with the results in the `runs` of the error's details.
    """
    wish = Wish(
        model=model,
        dimensions=dimensions,
        at_rate=at_rate,
        max_cost=max_cost,
        swap=swap,
        grace=None if grace_hours is None else timedelta(hours=grace_hours),
        lane=lane,
    )
    runs: list[TenantReindex] = []
    purse = Purse(max_cost)
    with engine_kept_open() as settings:
        planned = plan_reindex(tenants)
        mark_run(f"reindex to {model}", planned)
        for tenant in planned:
            run = TenantReindex(tenant)
            runs.append(run)
            started = time.monotonic()
            try:
                _one(run, wish, purse, settings)
            except EngineError as problem:
                run.problem, run.ending = problem, Ending.FAILED
            except BaseException:
                stop_soon()
                raise
            finally:
                run.seconds = time.monotonic() - started
    return _closing(runs)


def _one(run: TenantReindex, wish: Wish, purse: Purse, settings: Settings) -> None:
    priced = estimate_reindex(run.tenant, wish.model, wish.dimensions, wish.lane)
    run.estimate, run.price = priced.estimate, priced.price
    _afford(priced, purse)
    try:
        job = begin_reindex(run.tenant, wish.model, wish.dimensions)
    except Busy:
        run.ending = Ending.SKIPPED
        return
    if job is None:
        run.ending = Ending.ALREADY
        return
    run.generation = job.generation.number
    try:
        for _ in range(GATES):
            bring = _bring if wish.lane == "online" else _bring_by_jobs
            run.ending = bring(run, job, wish, purse, priced, settings)
            if run.ending is not Ending.VERIFIED:
                return
            run.verdict = verify_reindex(job)
            if run.verdict.passed:
                break
            run.ending = Ending.FAILED_GATE
        else:
            return
        if wish.swap and _is_fit(run, job):
            outcome = swap_reindex(job, wish.grace)
            run.ending = Ending.SWAPPED if outcome is SwapOutcome.SWAPPED else Ending.ALREADY
    finally:
        if run.ending is not Ending.SWAPPED:
            leave_reindex(job)


def _is_fit(run: TenantReindex, job: Job) -> bool:
    """Whether the suites let the verified generation pass too."""
    judged = judge_before_swap(job, run.verdict)
    if not judged.passed:
        run.ending, run.refused = Ending.FAILED_GATE, judged.reasons
    return judged.passed


def _afford(priced: Priced, purse: Purse) -> None:
    if purse.left is None:
        return
    if priced.money is None:
        raise Misconfigured("the price of this model is not known: a run cannot keep to a cost")
    left = purse.left - sum(purse.spent.values())
    if priced.money > left:
        raise Refused(f"it would cost about {priced.money:.4f} USD, and {left:.4f} may be spent", where="max_cost")


def _bring(run: TenantReindex, job: Job, wish: Wish, purse: Purse, priced: Priced, settings: Settings) -> Ending:
    """Feed and embed until it has caught up (VERIFIED, so to say: it can be), the money ends, or nothing moves."""
    started, idle, fed = time.monotonic(), 0, 0
    progress = Progress(key_of("reindex-progress", run.tenant), f"reindex {run.tenant}", time.monotonic)
    room: int | None = None
    for _ in range(ROUNDS):
        due = None if wish.at_rate is None else int(wish.at_rate * (time.monotonic() - started + 1)) - fed
        allowed = min((one for one in (due, room) if one is not None), default=None)
        report = feed_reindex(job, allowed)
        fed += report.fed
        run.tokens = report.tokens
        _note(run, report)
        total = max(priced.estimate.records, report.progress.fed)
        progress.show(max(0, report.progress.fed - report.progress.waiting), total)
        if report.done:
            return Ending.VERIFIED
        room = purse.room(run.tenant, priced, report)
        worked = _embed(run, report.progress.waiting, settings)
        if room == 0 and report.progress.waiting == 0:
            tell(Happened.BUDGET_REACHED, run.tenant, budget=f"max_cost {wish.max_cost} USD")
            return Ending.BUDGET
        idle = 0 if worked or report.fed else idle + 1
        if idle >= IDLE_ROUNDS:
            return Ending.WAITING
        if idle or (due is not None and due <= 0):
            time.sleep(1)
    return Ending.WAITING


def _bring_by_jobs(
    run: TenantReindex, job: Job, wish: Wish, purse: Purse, priced: Priced, settings: Settings
) -> Ending:
    """As `_bring`, by batch jobs: what came is brought, the rest goes into jobs. IN_JOBS: no more can be done now.

    Nothing is fed that cannot go into a job: what waits too long for one is embedded the normal way.
    """
    started, fed = time.monotonic(), 0
    room: int | None = None
    piece = Submitting(tenant=run.tenant, records=PIECE, generation=job.generation.number)
    for _ in range(ROUNDS):
        sent = submit_batch_jobs(piece)
        worked = _embed(run, settings.embed_portion, settings)
        due = None if wish.at_rate is None else int(wish.at_rate * (time.monotonic() - started + 1)) - fed
        allowed = min((one for one in (due, room, 0 if sent.postponed else None) if one is not None), default=None)
        report = feed_reindex(job, allowed, PIECE)
        fed += report.fed
        _note(run, report)
        if report.done:
            return Ending.VERIFIED
        room = purse.room(run.tenant, priced, report)
        if not (report.fed or worked or sent.entries or sent.brought or sent.reused or sent.set_aside):
            if due is None or due > 0 or sent.postponed:
                return Ending.BUDGET if room == 0 and report.progress.waiting == 0 else Ending.IN_JOBS
            time.sleep(1)
    return Ending.WAITING


def _note(run: TenantReindex, report: Report) -> None:
    run.fed, run.set_aside, run.tokens = report.progress.fed, report.progress.set_aside, report.tokens


def _embed(run: TenantReindex, waiting: int, settings: Settings) -> int:
    """Bring what waits, as many portions at once as the settings say; how many entries came to an end."""
    portions = min(settings.embed_tasks, -(-waiting // settings.embed_portion))
    portion = Portion(tenant=run.tenant, records=settings.embed_portion)
    asked = [embed_portion.submit(portion) for _ in range(portions)]
    reports = [future.result() for future in asked]
    run.reasons += [reason for one in reports for reason in one.set_aside.values()]
    return sum(one.worked for one in reports)


def _closing(runs: list[TenantReindex]) -> State[list[TenantReindex]]:
    failed = [run for run in runs if run.ending in {Ending.FAILED, Ending.FAILED_GATE}]
    told = "; ".join(f"{run.tenant}: {_told(run)}" for run in runs if run.ending not in DONE)
    show_table("reindex-report", [_row(run) for run in runs], told or "completed")
    message = told or f"{len(runs)} tenants: " + ", ".join(sorted({run.ending for run in runs}))
    if not failed:
        return Completed(message=message, data=runs)
    first = next((run.problem for run in failed if run.problem is not None), None)
    kind = Permanent if first is None else type(first)
    return Failed(message=message, data=kind(message, runs=runs))


def _row(run: TenantReindex) -> dict[str, str | int | float]:
    cost = money_of(run.tokens, run.price)
    verdict = "" if run.verdict is None else run.verdict.reasons or "passed"
    return {
        "tenant": run.tenant,
        "outcome": run.ending,
        "generation": run.generation or "",
        "records": run.fed,
        "set aside": run.set_aside,
        "reasons": reasons_of(run.reasons),
        "tokens": run.tokens,
        "cost (USD)": "" if cost is None else round(cost, 4),
        "gate": verdict,
        "seconds": round(run.seconds, 1),
        "problem": "" if run.problem is None else run.problem.message,
    }


def _told(run: TenantReindex) -> str:
    if run.problem is not None:
        return run.problem.message
    if run.ending is Ending.FAILED_GATE and run.verdict is not None:
        return f"{run.ending}: {run.verdict.reasons or run.refused}"
    return run.ending
