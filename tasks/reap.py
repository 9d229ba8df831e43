"""Tasks of the reap chore: which tenants there are, and some batches of one of them."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from prefect import task
from prefect.logging import get_run_logger

from core.batch.reap import Portion, Report, plan, step
from tasks.boundary import RETRIED, task_boundary
from tasks.engine import check_not_stopping, shared_engine
from tasks.pieces import summed

PLAN_SECONDS = 300
BATCH_SECONDS = 3600


@task(
    name="plan reap",
    task_run_name="plan reap",
    timeout_seconds=PLAN_SECONDS,
    **RETRIED,
)
def plan_reap(tenants: list[str] | None = None) -> list[Portion]:
    """Where each tenant's run begins (all tenants, or those named)."""
    with task_boundary("plan reap"), shared_engine() as engine:
        return plan(engine.lifecycle.tenants(tenants))


@task(
    name="reap batches",
    task_run_name="reap {portion.tenant}: {portion.phase}",
    timeout_seconds=BATCH_SECONDS,
    **RETRIED,
)
def reap_batches(portion: Portion, batches: int) -> Report:
    """So many batches of a tenant, or fewer when it is done; the report says where to go on."""
    with task_boundary(f"reap {portion.tenant}", tenant=portion.tenant), shared_engine() as engine:
        work = replace(engine.lifecycle.reap_work(), check=check_not_stopping)
        done = summed(Report(tenant=portion.tenant, next=portion), batches, partial(step, work))
        get_run_logger().info(
            "%s: %d expired, %d purged, %d waiting, %d versions, %d events, %d tombstones, %d relations, %d objects %s",
            portion.tenant,
            done.expired,
            done.purged,
            done.waiting,
            done.versions,
            done.events,
            done.tombstones,
            done.relations,
            done.objects,
            f"(postponed: {done.postponed})" if done.postponed else "",
        )
        return done
