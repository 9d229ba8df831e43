"""Tasks of the embed chore: cut the backlog into portions, and do one of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from prefect import runtime, task
from prefect.logging import get_run_logger

from core.batch.embed import Portion, Report, plan, step
from core.errors import EngineError
from tasks.boundary import RETRIED, task_boundary
from tasks.engine import check_not_stopping, shared_engine
from tasks.events import Happened, tell, tell_set_aside

# A task in a thread cannot be interrupted: this marks one that took far too long. What bounds the work
# inside are the time limits of the stores' own calls.
PLAN_SECONDS = 300
PORTION_SECONDS = 3600


@task(
    name="plan embed",
    task_run_name="plan embed",
    timeout_seconds=PLAN_SECONDS,
    **RETRIED,
)
def plan_embed(tenants: list[str] | None = None) -> list[Portion]:
    """Portions that cover what is waiting now, tenants in turn (all tenants, or those named)."""
    with task_boundary("plan embed"), shared_engine() as engine:
        backlog = engine.backlog(tenants)
        portions = plan(backlog, engine.settings.embed_portion)
        waiting = sum(one.waiting for one in backlog)
        get_run_logger().info("%d waiting: %d tenants, %d portions", waiting, len(backlog), len(portions))
        return portions


@task(
    name="embed portion",
    task_run_name="embed {portion.tenant}: {portion.records}",
    timeout_seconds=PORTION_SECONDS,
    **RETRIED,
)
def embed_portion(portion: Portion) -> Report:
    """Bring one portion of a tenant's waiting entries into its indexes."""
    return _brought(portion)


@task(
    name="embed small portions",
    task_run_name=lambda: "embed " + sized(runtime.task_run.parameters["portions"]),
    timeout_seconds=PORTION_SECONDS,
    **RETRIED,
)
def embed_small_portions(portions: tuple[Portion, ...]) -> list[Report | EngineError]:
    """Bring portions of several tenants into their indexes; for each what came of it: one that fails stops no other."""
    return [_of_one(portion) for portion in portions]


def sized(portions: Sequence[Portion]) -> str:
    """What such a task does, in a few words."""
    return f"{len(portions)} tenants: {sum(one.records for one in portions)}"


def _of_one(portion: Portion) -> Report | EngineError:
    check_not_stopping()
    try:
        return _brought(portion)
    except EngineError as problem:
        return problem


def _brought(portion: Portion) -> Report:
    with task_boundary(f"embed {portion.tenant}", tenant=portion.tenant), shared_engine() as engine:
        work = replace(engine.embed_work(), check=check_not_stopping)
        report = step(work, portion)
        tell_set_aside(portion.tenant, report.set_aside_count)
        if report.postponed and work.budget is not None and (reached := work.budget.used_up()):
            tell(Happened.BUDGET_REACHED, portion.tenant, budget=reached)
        get_run_logger().info(
            "%s: %d embedded, %d reused, %d truncated, %d payload only, %d deleted, %d unchanged, %d requeued, "
            "%d lost, %d set aside %s",
            portion.tenant,
            report.embedded,
            report.reused,
            report.truncated,
            report.payload_only,
            report.deleted,
            report.unchanged,
            report.requeued,
            report.lost,
            report.set_aside_count,
            f"(postponed: {report.postponed})" if report.postponed else "",
        )
        return report
