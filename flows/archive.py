"""The archive flow: memories that rest, tenant by tenant, into the object store."""

from __future__ import annotations

from typing import Annotated, Any

from prefect import State, flow
from prefect.states import Completed, Failed
from pydantic import Field

from core.batch.archive import Portion, Report, total
from core.errors import EngineError, Permanent
from tasks.archive import archive_batches, plan_archive
from tasks.engine import engine_kept_open, stop_soon
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
    problems: dict[str, EngineError] = {}
    with engine_kept_open():
        try:
            portions = plan_archive(tenants)
            mark_run("archive", [one.tenant for one in portions])
            reports = [_of_tenant(portion, max_tasks, problems) for portion in portions]
        except BaseException:
            # Ctrl-C reaches this thread alone: the batch under way ends, and none begins after it.
            stop_soon()
            raise
    return _closing(reports, problems)


def _of_tenant(portion: Portion, max_tasks: int, problems: dict[str, EngineError]) -> Report:
    """All of a tenant's work, a bounded task at a time; what ended it, if anything, goes into `problems`."""
    done: list[Report] = []
    following: Portion | None = portion
    for _ in range(max_tasks):
        if following is None:
            break
        state: State[Any] = archive_batches(following, BATCHES_A_TASK, return_state=True)
        result = state.result(raise_on_failure=False)
        if not isinstance(result, Report):
            unknown = Permanent(f"the task ended as {state.name}")
            problems[portion.tenant] = result if isinstance(result, EngineError) else unknown
            break
        done.append(result)
        following = result.next
    return total(portion.tenant, done)


def _closing(reports: list[Report], problems: dict[str, EngineError]) -> State[list[Report]]:
    told = [f"{tenant} failed: {problem.message}" for tenant, problem in problems.items()]
    told += [f"{one.tenant} left: {one.postponed}" for one in reports if one.postponed]
    if failed := sum(one.failed_count for one in reports):
        told.append(f"{failed} not archived")
    if not problems:
        return Completed(message=", ".join(["completed", *told]), data=reports)
    message = "; ".join(told)
    return Failed(message=message, data=type(next(iter(problems.values())))(message, reports=reports))


if __name__ == "__main__":
    archive()
