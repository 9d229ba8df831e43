"""Tasks of the batch lane: put what waits into jobs, look at the open ones, drop what was brought."""

from __future__ import annotations

from dataclasses import replace

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.logging import get_run_logger

from core.batch.batch_lane import Followed, Submitted, Submitting, follow, plan, step, sweep
from core.model.batch import BatchJob
from tasks.boundary import RETRIED, task_boundary
from tasks.engine import check_not_stopping, shared_engine
from tasks.events import tell_set_aside

LOOK_SECONDS = 300
# A file of the largest size goes up, or comes down, within this time, if the network is not very slow.
JOB_SECONDS = 7200
# More than the largest job takes: what is over goes into the next one.
PIECE = 60_000


@task(
    name="plan batch jobs",
    task_run_name="plan batch jobs",
    timeout_seconds=LOOK_SECONDS,
    **RETRIED,
)
def plan_batch_jobs(tenants: list[str] | None = None) -> list[Submitting]:
    """A piece for each tenant that has work now (all tenants, or those named)."""
    with task_boundary("plan batch jobs"), shared_engine() as engine:
        return plan(engine.backlog(tenants), PIECE)


@task(
    name="submit batch jobs",
    task_run_name="submit batch jobs of {piece.tenant}: {piece.records}",
    timeout_seconds=JOB_SECONDS,
    cache_policy=NO_CACHE,
    persist_result=False,
)
def submit_batch_jobs(piece: Submitting) -> Submitted:
    """Fill and send at most one job for each of a tenant's generations."""
    with task_boundary(f"submit batch jobs of {piece.tenant}", tenant=piece.tenant), shared_engine() as engine:
        report = step(replace(engine.batch_work(), check=check_not_stopping), piece)
        tell_set_aside(piece.tenant, report.set_aside)
        get_run_logger().info(
            "%s: %d entries, %d texts, about %d tokens in %d jobs; %d reused, %d brought without %s",
            piece.tenant,
            report.entries,
            report.texts,
            report.tokens,
            len(report.jobs),
            report.reused,
            report.brought,
            f"(postponed: {report.postponed})" if report.postponed else "",
        )
        return report


@task(
    name="list batch jobs",
    task_run_name="list batch jobs",
    timeout_seconds=LOOK_SECONDS,
    **RETRIED,
)
def list_batch_jobs(tenants: list[str] | None = None) -> list[BatchJob]:
    """Jobs that have not ended, oldest first."""
    with task_boundary("list batch jobs"), shared_engine() as engine:
        return list(engine.batch_jobs(tenants, open_only=True))[::-1]


@task(
    name="follow batch job",
    task_run_name="follow batch job {job.id} of {job.tenant}",
    timeout_seconds=JOB_SECONDS,
    cache_policy=NO_CACHE,
    persist_result=False,
)
def follow_batch_job(job: BatchJob) -> Followed:
    """Look at one open job, and keep its results if it has ended."""
    with task_boundary(f"follow batch job {job.id} of {job.tenant}", tenant=job.tenant), shared_engine() as engine:
        found = follow(replace(engine.batch_work(), check=check_not_stopping), job)
        tell_set_aside(job.tenant, found.refused)
        said = f"(postponed: {found.postponed})" if found.postponed else ""
        get_run_logger().info("batch job %s is %s: %d vectors kept %s", job.id, found.state, found.kept, said)
        return found


@task(
    name="sweep batch jobs",
    task_run_name="sweep batch jobs",
    timeout_seconds=LOOK_SECONDS,
    **RETRIED,
)
def sweep_batch_jobs(tenants: list[str] | None = None) -> int:
    """Drop what nobody needs any more of jobs that ended; so many items."""
    with task_boundary("sweep batch jobs"), shared_engine() as engine:
        known = sorted({job.tenant for job in engine.batch_jobs(tenants)})
        return sum(sweep(engine.batch_work(), tenant) for tenant in known)
