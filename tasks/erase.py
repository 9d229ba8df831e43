"""Task of the erase chore: an erasure from its beginning, or from where it stood, to its receipt."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from prefect import task
from prefect.logging import get_run_logger

from core.batch.erase import Report, plan, step
from core.model.erasure import Request
from tasks.boundary import RETRIED, task_boundary
from tasks.engine import check_not_stopping, shared_engine
from tasks.pieces import summed

ERASE_SECONDS = 3600
MOST_STEPS = 1_000_000


@task(
    name="erase",
    task_run_name="erase {request.tenant}: {request.kind}",
    timeout_seconds=ERASE_SECONDS,
    **RETRIED,
)
def erase_all_of(request: Request) -> Report:
    """Erase what is asked, and look for it again; without a receipt when a store was out of reach."""
    with task_boundary(f"erase {request.tenant}", tenant=request.tenant), shared_engine() as engine:
        work = replace(engine.lifecycle.erase_work(), check=check_not_stopping)
        begun = Report(tenant=request.tenant, next=plan(work, request))
        done = summed(begun, MOST_STEPS, partial(step, work))
        outcome = "no receipt" if done.receipt is None else done.receipt["outcome"]
        get_run_logger().info("%s: %d memories, %s", request.tenant, done.memories, outcome)
        return done
