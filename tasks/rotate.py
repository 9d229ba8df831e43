"""Tasks of the rotate chore: which tenants there are, and some batches of one of them."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from prefect import task
from prefect.logging import get_run_logger

from core.batch.rotate import Portion, Report, plan, step
from tasks.boundary import RETRIED, task_boundary
from tasks.engine import check_not_stopping, shared_engine
from tasks.pieces import summed

PLAN_SECONDS = 300
BATCH_SECONDS = 3600


@task(
    name="plan rotate",
    task_run_name="plan rotate",
    timeout_seconds=PLAN_SECONDS,
    **RETRIED,
)
def plan_rotate(tenants: list[str] | None, *, new_key: bool) -> list[Portion]:
    """Where each tenant's run begins (all tenants, or those named)."""
    with task_boundary("plan rotate"), shared_engine() as engine:
        return plan(engine.lifecycle.tenants(tenants), new_key=new_key)


@task(
    name="rotate batches",
    task_run_name="rotate {portion.tenant}",
    timeout_seconds=BATCH_SECONDS,
    **RETRIED,
)
def rotate_batches(portion: Portion, batches: int) -> Report:
    """So many batches of a tenant, or fewer when it is done; the report says where to go on."""
    with task_boundary(f"rotate {portion.tenant}", tenant=portion.tenant), shared_engine() as engine:
        work = replace(engine.lifecycle.rotate_work(), check=check_not_stopping)
        done = summed(Report(tenant=portion.tenant, next=portion), batches, partial(step, work))
        get_run_logger().info(
            "%s: %d keys wrapped anew, %d memories sealed anew, %d failed %s",
            portion.tenant,
            done.rewrapped,
            done.resealed,
            done.failed,
            f"(postponed: {done.postponed})" if done.postponed else "",
        )
        return done
