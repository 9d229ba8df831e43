"""Tasks of the quality chore: draw tenants, judge their samples, and judge one generation before its swap."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, datetime

from prefect import task
from prefect.artifacts import create_table_artifact
from prefect.logging import get_run_logger

from core.batch.quality import Portion, Report, judge_generation, plan, step
from core.batch.reindex import Job
from core.model.reindex import GateVerdict
from tasks.boundary import RETRIED, task_boundary
from tasks.engine import check_not_stopping, shared_engine
from tasks.events import Happened, tell
from tasks.seen import show_docs

PLAN_SECONDS = 300
JUDGE_SECONDS = 3600
TABLE_KEY = "quality"


@task(
    name="plan quality",
    task_run_name="plan quality",
    timeout_seconds=PLAN_SECONDS,
    **RETRIED,
)
def plan_quality(tenants: list[str] | None = None) -> list[Portion]:
    """The tenants whose samples are looked at this time (of all, or of those named)."""
    with task_boundary("plan quality"), shared_engine() as engine:
        known = engine.lifecycle.tenants(tenants)
        return plan(known, engine.settings.quality_tenants, random.Random())  # noqa: S311  a sample


@task(
    name="judge samples",
    task_run_name="judge samples",
    timeout_seconds=JUDGE_SECONDS,
    **RETRIED,
)
def judge_samples(portion: Portion) -> Report:
    """Judge samples of some tenants; the verdicts are kept as a table artifact, with a link to the pages."""
    with task_boundary("judge samples"), shared_engine() as engine:
        now = datetime.now(UTC)
        work = engine.watch.quality_work(now, random.Random())  # noqa: S311  a sample
        report = step(replace(work, check=check_not_stopping), portion, now)
        _keep(report, f"{report.tenants} tenants")
        return report


@task(
    name="judge before swap",
    task_run_name="judge before swap {job.generation.tenant}",
    timeout_seconds=JUDGE_SECONDS,
    **RETRIED,
)
def judge_before_swap(job: Job, verdict: GateVerdict | None) -> Report:
    """Judge what the gate said of a generation, and a sample of its points, by the suites."""
    made = job.generation
    about = task_boundary(f"judge before swap {made.tenant}", tenant=made.tenant, generation=made.number)
    with about, shared_engine() as engine:
        now = datetime.now(UTC)
        work = engine.watch.quality_work(now, random.Random())  # noqa: S311  a sample
        report = judge_generation(replace(work, check=check_not_stopping), made, verdict, now)
        _keep(report, f"{made.tenant}, generation {made.number}, before its swap")
        if not report.passed:
            tell(Happened.GATE_FAILED, made.tenant, generation=made.number, reasons=report.reasons)
        return report


def _keep(report: Report, of: str) -> None:
    rows = [
        {"suite": one.suite, "passed": "yes" if one.passed else "NO", "rows": one.rows, "failed": one.reasons}
        for one in report.verdicts
    ]
    rows += [{"suite": suite, "passed": "nothing to check", "rows": 0, "failed": ""} for suite in report.nothing]
    create_table_artifact(key=TABLE_KEY, table=rows, description=f"{of}: {report.reasons or 'passed'}")
    if report.docs:
        show_docs(report.docs)
    get_run_logger().info("%s: %s", of, report.reasons or "passed")
