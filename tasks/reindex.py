"""Tasks of the reindex chore: begin, feed, verify, swap, and the sweep of what is no longer needed."""

from __future__ import annotations

import random
import uuid
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from prefect import State, Task, task
from prefect.artifacts import create_table_artifact
from prefect.client.schemas.objects import TaskRun
from prefect.logging import get_run_logger

from core.assembly.models import price_of
from core.batch import reindex
from core.batch.reindex import Job, Report
from core.errors import Busy, Misconfigured
from core.index.estimate import Estimate
from core.model.reindex import GateVerdict, SwapOutcome
from tasks.boundary import RETRIED, task_boundary, worth_retrying
from tasks.engine import check_not_stopping, shared_engine
from tasks.events import Happened, tell
from tasks.seen import key_of

# These mark a task that took far too long; what bounds the work inside are the stores' own time limits.
SHORT_SECONDS = 600
LONG_SECONDS = 7200

Lane = Literal["online", "batch"]

SHORT: dict[str, Any] = {**RETRIED, "timeout_seconds": SHORT_SECONDS}
LONG: dict[str, Any] = {**RETRIED, "timeout_seconds": LONG_SECONDS}


@dataclass(frozen=True, slots=True, kw_only=True)
class Priced:
    """An estimate with the list price of its model, per million tokens (None: not known)."""

    estimate: Estimate
    price: float | None

    @property
    def money(self) -> float | None:
        """What the estimate costs, in US dollars."""
        return self.estimate.money(self.price)


@task(name="plan reindex", task_run_name="plan reindex", **SHORT)
def plan_reindex(tenants: list[str] | None = None) -> list[str]:
    """The tenants to reindex: those named, or all that ever wrote."""
    with task_boundary("plan reindex"), shared_engine() as engine:
        found = [one.tenant for one in engine.backlog(tenants)] if tenants is None else list(dict.fromkeys(tenants))
        get_run_logger().info("%d tenants to reindex", len(found))
        return found


@task(name="estimate reindex", task_run_name="estimate reindex {tenant}", **LONG)
def estimate_reindex(tenant: str, model: str, dimensions: int | None = None, lane: Lane = "online") -> Priced:
    """Records, tokens, vectors that can be reused and money, before anything is begun.

    Raises Misconfigured for a lane the model does not have.
    """
    with task_boundary(f"estimate reindex {tenant}", tenant=tenant), shared_engine() as engine:
        space = engine.space_of(model, dimensions)
        if lane == "batch" and engine.batch_work().batches_of(space) is None:
            raise Misconfigured(f"{space.provider} is not known to have batch jobs: reindex without --lane batch")
        price = price_of(space.provider, space.model, batch=lane == "batch")
        return Priced(estimate=engine.estimate(tenant, space), price=price)


def _worth_retrying(task: Task[..., Any], run: TaskRun, state: State[Any]) -> bool:
    """Not when another run drives it: that one does the work."""
    found = state.result(raise_on_failure=False)
    return worth_retrying(task, run, state) and not isinstance(found, Busy)


@task(
    name="begin reindex",
    task_run_name="begin reindex {tenant}: {model}",
    **{**SHORT, "retry_condition_fn": _worth_retrying},
)
def begin_reindex(tenant: str, model: str, dimensions: int | None = None) -> Job | None:
    """Register the new generation, or take up the one begun before. None: the tenant is in that space already."""
    with task_boundary(f"begin reindex {tenant}", tenant=tenant), shared_engine() as engine:
        job = reindex.begin(engine.reindex_work(), tenant, engine.space_of(model, dimensions), uuid.uuid4())
        if job is not None:
            begun = "taken up" if job.resumed else "registered"
            get_run_logger().info("%s: generation %d %s", tenant, job.generation.number, begun)
        return job


@task(name="feed reindex", task_run_name="feed reindex {job.generation.tenant}", **SHORT)
def feed_reindex(job: Job, allowed: int | None = None, for_jobs: int | None = None) -> Report:
    """Put the next bounded piece in the queue; how far the generation is.

    With `for_jobs` it is for batch jobs, and at the most so many wait for one.
    """
    with (
        task_boundary(
            f"feed reindex {job.generation.tenant}", tenant=job.generation.tenant, generation=job.generation.number
        ),
        shared_engine() as engine,
    ):
        check_not_stopping()
        work = engine.reindex_work()
        if for_jobs is not None:
            work = replace(work, ahead=for_jobs, batch_wait=engine.settings.batch_wait)
        report = reindex.step(work, job, allowed)
        progress = report.progress
        get_run_logger().info(
            "%s: %d fed, %d in all, %d of %d ranges left, %d waiting, %d of these in batch jobs, %d set aside",
            report.tenant,
            report.fed,
            progress.fed,
            progress.open,
            progress.ranges,
            progress.waiting,
            progress.in_jobs,
            progress.set_aside,
        )
        return report


@task(name="verify reindex", task_run_name="verify reindex {job.generation.tenant}", **LONG)
def verify_reindex(job: Job) -> GateVerdict:
    """Put the generation before the gate; the verdict is kept as a table artifact too."""
    tenant = job.generation.tenant
    with (
        _boundary("verify reindex", job),
        shared_engine() as engine,
    ):
        check_not_stopping()
        verdict = reindex.verify(engine.reindex_work(), job, random.Random(), datetime.now(UTC))  # noqa: S311  a sample
        create_table_artifact(
            key=key_of("gate", tenant),
            table=[
                {
                    "check": check.name,
                    "passed": "yes" if check.passed else "NO",
                    "figure": check.figure,
                    "bound": check.bound,
                    "note": check.note,
                }
                for check in verdict.checks
            ],
            description=f"{tenant}, generation {job.generation.number}: {verdict.reasons or 'passed'}",
        )
        if not verdict.passed:
            tell(Happened.GATE_FAILED, tenant, generation=job.generation.number, reasons=verdict.reasons)
        get_run_logger().info("%s: gate %s", tenant, verdict.reasons or "passed")
        return verdict


@task(name="swap reindex", task_run_name="swap reindex {job.generation.tenant}", **SHORT)
def swap_reindex(job: Job, grace: timedelta | None = None) -> SwapOutcome:
    """Make the verified generation live; the old one is kept for `grace` (None: as the settings say)."""
    with (
        task_boundary(
            f"swap reindex {job.generation.tenant}", tenant=job.generation.tenant, generation=job.generation.number
        ),
        shared_engine() as engine,
    ):
        kept = engine.settings.reindex_grace if grace is None else grace
        outcome = reindex.swap(engine.reindex_work(), job, kept)
        if outcome is SwapOutcome.SWAPPED:
            tell(Happened.SWAPPED, job.generation.tenant, generation=job.generation.number)
        get_run_logger().info("%s: generation %d %s", job.generation.tenant, job.generation.number, outcome)
        return outcome


@task(name="leave reindex", task_run_name="leave reindex {job.generation.tenant}", **SHORT)
def leave_reindex(job: Job) -> None:
    """Let another run go on with it at once."""
    with (
        task_boundary(
            f"leave reindex {job.generation.tenant}", tenant=job.generation.tenant, generation=job.generation.number
        ),
        shared_engine() as engine,
    ):
        engine.reindex_work().building.leave(job.generation, job.runner)


@task(name="sweep generations", task_run_name="sweep generations", **LONG)
def sweep_generations() -> Mapping[str, str]:
    """Drop generations whose time has come; what could not be dropped, with the reason."""
    with task_boundary("sweep generations"), shared_engine() as engine:
        left = engine.sweep_generations()
        for collection, reason in left.items():
            get_run_logger().warning("%s stays: %s", collection, reason)
        return left


def _boundary(what: str, job: Job) -> AbstractContextManager[None]:
    tenant, number = job.generation.tenant, job.generation.number
    return task_boundary(f"{what} {tenant}", tenant=tenant, generation=number)
