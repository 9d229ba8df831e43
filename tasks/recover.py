"""Tasks of the recover chore: which tenants, and one piece of one of them."""

from __future__ import annotations

from dataclasses import replace

from prefect import task
from prefect.logging import get_run_logger

from core.batch.recover import BEGINNING, Cursor, Report, plan, step
from tasks.boundary import RETRIED, task_boundary
from tasks.engine import check_not_stopping, shared_engine

PLAN_SECONDS = 300
PIECE_SECONDS = 3600


@task(
    name="plan recover",
    task_run_name="plan recover",
    timeout_seconds=PLAN_SECONDS,
    **RETRIED,
)
def plan_recover(tenants: list[str] | None = None) -> list[str]:
    """The tenants to recover (all, or those named)."""
    with task_boundary("plan recover"), shared_engine() as engine:
        return plan(one.tenant for one in engine.backlog(tenants))


@task(
    name="recover piece",
    task_run_name="recover {tenant}",
    timeout_seconds=PIECE_SECONDS,
    **RETRIED,
)
def recover_piece(tenant: str, cursor: Cursor = BEGINNING, generation: int | None = None) -> Report:
    """Recover one piece of a tenant's index."""
    with task_boundary(f"recover {tenant}", tenant=tenant), shared_engine() as engine:
        report = step(replace(engine.safekeeping.recover_work(), check=check_not_stopping), tenant, cursor, generation)
        found = report.figures
        get_run_logger().info(
            "%s: %d wanted, %d right, %d restored, %d left to the embed chore, %d orphans, %d damaged %s",
            tenant,
            found.wanted,
            found.right,
            found.restored,
            found.enqueued,
            found.orphans,
            len(report.damaged),
            f"(skipped: {report.skipped})" if report.skipped else "",
        )
        return report
