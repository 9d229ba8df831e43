"""Tasks of the relay chore: which tenants, and a portion of one tenant's events."""

from __future__ import annotations

from dataclasses import replace

from prefect import task
from prefect.logging import get_run_logger

from core.batch.relay import Report, plan, step
from tasks.boundary import RETRIED, task_boundary
from tasks.engine import check_not_stopping, shared_engine

PLAN_SECONDS = 300
PORTION_SECONDS = 3600
PORTION = 50_000


@task(
    name="plan relay",
    task_run_name="plan relay",
    timeout_seconds=PLAN_SECONDS,
    **RETRIED,
)
def plan_relay(tenants: list[str] | None = None) -> list[str]:
    """The tenants with events to tell (of all, or of those named)."""
    with task_boundary("plan relay"), shared_engine() as engine:
        return plan(engine.upkeep.event_lag(tenants))


@task(
    name="relay portion",
    task_run_name="relay {tenant}",
    timeout_seconds=PORTION_SECONDS,
    **RETRIED,
)
def relay_portion(tenant: str) -> Report:
    """Tell a portion of a tenant's events."""
    with task_boundary(f"relay {tenant}"), shared_engine() as engine:
        report = step(replace(engine.upkeep.relay_work(), check=check_not_stopping), tenant, PORTION)
        get_run_logger().info("%s: %d events told %s", tenant, report.told, report.skipped or "")
        return report
