"""Task of the erase chore: an erasure from its beginning, or from where it stood, to its receipt."""

from __future__ import annotations

from dataclasses import replace

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.logging import get_run_logger

from core.batch.erase import Report, plan, step
from core.model.erasure import Request
from tasks.boundary import RETRIES, RETRY_SECONDS, task_boundary, worth_retrying
from tasks.engine import check_not_stopping, shared_engine

ERASE_SECONDS = 3600
MOST_STEPS = 1_000_000


@task(
    name="erase",
    task_run_name="erase {request.tenant}: {request.kind}",
    retries=RETRIES,
    retry_delay_seconds=RETRY_SECONDS,
    retry_condition_fn=worth_retrying,
    timeout_seconds=ERASE_SECONDS,
    cache_policy=NO_CACHE,
    persist_result=False,
)
def erase_all_of(request: Request) -> Report:
    """Erase what is asked, and look for it again; without a receipt when a store was out of reach."""
    with task_boundary(f"erase {request.tenant}", tenant=request.tenant), shared_engine() as engine:
        work = replace(engine.lifecycle.erase_work(), check=check_not_stopping)
        summed = Report(tenant=request.tenant, next=plan(work, request))
        for _ in range(MOST_STEPS):
            if summed.next is None:
                break
            summed = summed.plus(step(work, summed.next))
        outcome = "no receipt" if summed.receipt is None else summed.receipt["outcome"]
        get_run_logger().info("%s: %d memories, %s", request.tenant, summed.memories, outcome)
        return summed
