"""Tasks of the reconcile chore: which pieces, one of them, the queue of orphans, and the report."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from prefect import task
from prefect.artifacts import create_table_artifact
from prefect.logging import get_run_logger

from core.batch.reconcile import Report, remove, step
from core.index.orphans import Removed
from core.model.drift import Depth, Look, StoreReport
from tasks.boundary import RETRIED, task_boundary
from tasks.engine import check_not_stopping, shared_engine
from tasks.events import Happened, tell

PLAN_SECONDS = 300
PIECE_SECONDS = 3600
REPORT_KEY = "reconcile-report"
SHOWN = 10


@task(
    name="plan reconcile",
    task_run_name="plan reconcile",
    timeout_seconds=PLAN_SECONDS,
    **RETRIED,
)
def plan_reconcile(tenants: list[str] | None = None) -> list[Look]:
    """The pieces to look at (of all tenants, or those named)."""
    with task_boundary("plan reconcile"), shared_engine() as engine:
        return engine.upkeep.plan(tenants)


@task(
    name="reconcile piece",
    task_run_name="reconcile {look.tenant} from {look.first}",
    timeout_seconds=PIECE_SECONDS,
    **RETRIED,
)
def reconcile_piece(look: Look, depth: Depth, dry: bool = False) -> Report:
    """Look at one piece of a tenant's stores and have what is wrong put right."""
    with task_boundary(f"reconcile {look.tenant}"), shared_engine() as engine:
        report = step(replace(engine.upkeep.work(), check=check_not_stopping), look, depth, dry=dry)
        for one in report.stores:
            get_run_logger().info(
                "%s, %s %d: %s, %d found, %d left %s",
                one.tenant,
                one.store,
                one.generation,
                one.verdict.value,
                one.found,
                one.left,
                one.alarm or one.note,
            )
        if not dry and (found := sum(one.found for one in report.stores)):
            tell(Happened.DRIFT_FOUND, look.tenant, found=found, left=sum(one.left for one in report.stores))
        return report


@task(
    name="remove orphans",
    task_run_name="remove orphans",
    timeout_seconds=PIECE_SECONDS,
    **RETRIED,
)
def remove_orphans(tenants: Sequence[str], most: int) -> dict[str, Removed]:
    """Wait for the minimum age, then take out of the tenants' indexes what was found wrong and still is."""
    with task_boundary("remove orphans"), shared_engine() as engine:
        time.sleep(engine.settings.reconcile_minimum_age.total_seconds())
        work = engine.upkeep.work()
        done = {}
        for tenant in tenants:
            check_not_stopping()
            done[tenant] = remove(work, tenant, most)
            get_run_logger().info(
                "%s: %d points taken out, %d spared", tenant, done[tenant].removed, done[tenant].spared
            )
        return done


@task(
    name="reconcile report",
    task_run_name="reconcile report",
    timeout_seconds=PLAN_SECONDS,
    **RETRIED,
)
def publish_drift(reports: Sequence[StoreReport]) -> None:
    """Keep the table of a run as an artifact: a line for each kind found in each store, and one for each store."""
    with task_boundary("reconcile report"):
        create_table_artifact(
            key=REPORT_KEY,
            table=[row for one in reports for row in _rows(one)],
            description="; ".join(f"{one.tenant}: {one.alarm}" for one in reports if one.alarm) or None,
        )


def _rows(report: StoreReport) -> list[dict[str, str | int]]:
    store: dict[str, str | int] = {
        "tenant": report.tenant,
        "store": report.store,
        "generation": report.generation or "",
        "verdict": report.verdict.value,
    }
    counts: dict[str, str | int] = {"found": 0, "repaired": 0, "left": 0}
    rows = [
        {
            **store,
            "kind": one.kind.value,
            "found": one.found,
            "repaired": one.repaired,
            "left": one.left,
            "why": one.why,
            "samples": ", ".join(one.samples[:SHOWN]),
        }
        for one in report.findings
    ]
    return rows or [{**store, "kind": "", **counts, "why": report.note, "samples": ""}]
