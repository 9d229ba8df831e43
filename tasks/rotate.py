"""Tasks of the rotate chore: which tenants there are, and some batches of one of them."""

from __future__ import annotations

from dataclasses import replace

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.logging import get_run_logger

from core.batch.rotate import Portion, Report, plan, step
from tasks.boundary import RETRIES, RETRY_SECONDS, task_boundary, worth_retrying
from tasks.engine import check_not_stopping, shared_engine

PLAN_SECONDS = 300
BATCH_SECONDS = 3600


@task(
    name="plan rotate",
    task_run_name="plan rotate",
    retries=RETRIES,
    retry_delay_seconds=RETRY_SECONDS,
    retry_condition_fn=worth_retrying,
    timeout_seconds=PLAN_SECONDS,
    cache_policy=NO_CACHE,
    persist_result=False,
)
def plan_rotate(tenants: list[str] | None, *, new_key: bool) -> list[Portion]:
    """Where each tenant's run begins (all tenants, or those named)."""
    with task_boundary("plan rotate"), shared_engine() as engine:
        return plan(engine.lifecycle.tenants(tenants), new_key=new_key)


@task(
    name="rotate batches",
    task_run_name="rotate {portion.tenant}",
    retries=RETRIES,
    retry_delay_seconds=RETRY_SECONDS,
    retry_condition_fn=worth_retrying,
    timeout_seconds=BATCH_SECONDS,
    cache_policy=NO_CACHE,
    persist_result=False,
)
def rotate_batches(portion: Portion, batches: int) -> Report:
    """So many batches of a tenant, or fewer when it is done; the report says where to go on."""
    with task_boundary(f"rotate {portion.tenant}", tenant=portion.tenant), shared_engine() as engine:
        work = replace(engine.lifecycle.rotate_work(), check=check_not_stopping)
        summed = Report(tenant=portion.tenant, next=portion)
        for _ in range(batches):
            if summed.next is None:
                break
            summed = summed.plus(step(work, summed.next))
        get_run_logger().info(
            "%s: %d keys wrapped anew, %d memories sealed anew, %d failed %s",
            portion.tenant,
            summed.rewrapped,
            summed.resealed,
            summed.failed,
            f"(postponed: {summed.postponed})" if summed.postponed else "",
        )
        return summed
