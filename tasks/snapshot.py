"""Tasks of the snapshot chore: which tenants, and one portion of one of them."""

from __future__ import annotations

from dataclasses import replace

from prefect import task
from prefect.logging import get_run_logger

from core.batch.snapshot import Report, plan, step
from tasks.boundary import RETRIED, task_boundary
from tasks.engine import check_not_stopping, shared_engine

PLAN_SECONDS = 300
PORTION_SECONDS = 3600


@task(
    name="plan snapshot",
    task_run_name="plan snapshot",
    timeout_seconds=PLAN_SECONDS,
    **RETRIED,
)
def plan_snapshot(tenants: list[str] | None = None) -> list[str]:
    """The tenants to take snapshots of (all, or those named)."""
    with task_boundary("plan snapshot"), shared_engine() as engine:
        return plan(one.tenant for one in engine.backlog(tenants))


@task(
    name="snapshot portion",
    task_run_name="snapshot {tenant}",
    timeout_seconds=PORTION_SECONDS,
    **RETRIED,
)
def snapshot_portion(tenant: str) -> Report:
    """Take one portion of a tenant's snapshot."""
    with task_boundary(f"snapshot {tenant}", tenant=tenant), shared_engine() as engine:
        report = step(replace(engine.safekeeping.snapshot_work(), check=check_not_stopping), tenant)
        get_run_logger().info(
            "%s: %d rows in %d parts, %d unchanged, %d dropped, %d moving, %d damaged %s",
            tenant,
            report.rows,
            report.parts,
            report.unchanged,
            report.dropped,
            report.moving,
            len(report.damaged),
            f"(skipped: {report.skipped})" if report.skipped else "",
        )
        return report
