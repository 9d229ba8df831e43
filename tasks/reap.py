"""Tasks of the reap chore: which tenants there are, and some batches of one of them."""

from __future__ import annotations

from dataclasses import replace

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.logging import get_run_logger

from core.batch.reap import Portion, Report, plan, step
from tasks.boundary import RETRIES, RETRY_SECONDS, task_boundary, worth_retrying
from tasks.engine import check_not_stopping, shared_engine

PLAN_SECONDS = 300
BATCH_SECONDS = 3600


@task(
    name="plan reap",
    task_run_name="plan reap",
    retries=RETRIES,
    retry_delay_seconds=RETRY_SECONDS,
    retry_condition_fn=worth_retrying,
    timeout_seconds=PLAN_SECONDS,
    cache_policy=NO_CACHE,
    persist_result=False,
)
def plan_reap(tenants: list[str] | None = None) -> list[Portion]:
    """Where each tenant's run begins (all tenants, or those named)."""
    with task_boundary("plan reap"), shared_engine() as engine:
        return plan(engine.lifecycle.tenants(tenants))


@task(
    name="reap batches",
    task_run_name="reap {portion.tenant}: {portion.phase}",
    retries=RETRIES,
    retry_delay_seconds=RETRY_SECONDS,
    retry_condition_fn=worth_retrying,
    timeout_seconds=BATCH_SECONDS,
    cache_policy=NO_CACHE,
    persist_result=False,
)
def reap_batches(portion: Portion, batches: int) -> Report:
    """So many batches of a tenant, or fewer when it is done; the report says where to go on."""
    with task_boundary(f"reap {portion.tenant}", tenant=portion.tenant), shared_engine() as engine:
        work = replace(engine.lifecycle.reap_work(), check=check_not_stopping)
        summed = Report(tenant=portion.tenant, next=portion)
        for _ in range(batches):
            if summed.next is None:
                break
            summed = summed.plus(step(work, summed.next))
        get_run_logger().info(
            "%s: %d expired, %d purged, %d waiting, %d versions, %d events, %d tombstones, %d objects %s",
            portion.tenant,
            summed.expired,
            summed.purged,
            summed.waiting,
            summed.versions,
            summed.events,
            summed.tombstones,
            summed.objects,
            f"(postponed: {summed.postponed})" if summed.postponed else "",
        )
        return summed
