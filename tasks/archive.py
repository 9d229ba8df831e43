"""Tasks of the archive chore: which tenants there are, and one batch of one of them."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from prefect import task
from prefect.logging import get_run_logger

from core.batch.archive import Portion, Report, plan, step
from tasks.boundary import RETRIED, task_boundary
from tasks.engine import check_not_stopping, shared_engine
from tasks.pieces import summed

PLAN_SECONDS = 300
BATCH_SECONDS = 3600


@task(
    name="plan archive",
    task_run_name="plan archive",
    timeout_seconds=PLAN_SECONDS,
    **RETRIED,
)
def plan_archive(tenants: list[str] | None = None) -> list[Portion]:
    """Where each tenant's run begins (all tenants, or those named)."""
    with task_boundary("plan archive"), shared_engine() as engine:
        return plan(engine.lifecycle.tenants(tenants))


@task(
    name="archive batches",
    task_run_name="archive {portion.tenant}",
    timeout_seconds=BATCH_SECONDS,
    **RETRIED,
)
def archive_batches(portion: Portion, batches: int) -> Report:
    """So many batches of a tenant, or fewer when it is done; the report says where to go on."""
    with task_boundary(f"archive {portion.tenant}", tenant=portion.tenant), shared_engine() as engine:
        work = replace(engine.lifecycle.archive_work(), check=check_not_stopping)
        done = summed(Report(tenant=portion.tenant, next=portion), batches, partial(step, work))
        get_run_logger().info(
            "%s: %d archived (%d to %d bytes), %d cooled, %d warmed, %d moved on, %d failed %s",
            portion.tenant,
            done.archived,
            done.bytes_before,
            done.bytes_after,
            done.cooled,
            done.warmed,
            done.moved_on,
            done.failed_count,
            f"(postponed: {done.postponed})" if done.postponed else "",
        )
        return done
