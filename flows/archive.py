"""The archive flow: memories that rest, tenant by tenant, into the object store."""

from __future__ import annotations

from typing import Annotated, Any

from prefect import State, flow
from pydantic import Field

from core.batch.archive import Portion, Report, total
from core.errors import EngineError
from tasks.archive import archive_batches, plan_archive
from tasks.engine import engine_kept_open, stop_soon
from tasks.pieces import all_of, ended
from tasks.seen import mark_run, named

BATCHES_A_TASK = 20


@flow(name="archive", flow_run_name=named("archive"), persist_result=False)
def archive(
    tenants: Annotated[list[str] | None, Field(description="Only these tenants; none given: all of them")] = None,
    max_tasks: Annotated[int, Field(ge=1, le=100_000, description="Pieces of a tenant's work, at the most")] = 10_000,
) -> State[list[Report]]:
    """Move memories by policy: to cold, back to warm, into the archive. Can be stopped, run twice, run beside itself.

    One report a tenant. A tenant that fails does not stop the others: the run ends Failed, with the reports in the
    `reports` of the error's details.
    """
    reports: list[Report] = []
    problems: dict[str, EngineError] = {}
    with engine_kept_open():
        try:
            portions = plan_archive(tenants)
            mark_run("archive", [one.tenant for one in portions])
            for portion in portions:
                done, problem = all_of(portion, max_tasks, _task, Report)
                reports.append(total(portion.tenant, done))
                if problem is not None:
                    problems[portion.tenant] = problem
        except BaseException:
            # Ctrl-C reaches this thread alone: the batch under way ends, and none begins after it.
            stop_soon()
            raise
    told = [f"{one.tenant} left: {one.postponed}" for one in reports if one.postponed]
    if failed := sum(one.failed_count for one in reports):
        told.append(f"{failed} not archived")
    return ended("archive", reports, problems, told)


def _task(portion: Portion) -> State[Any]:
    return archive_batches(portion, BATCHES_A_TASK, return_state=True)


if __name__ == "__main__":
    archive()
