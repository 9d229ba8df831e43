"""The rotate flow: keys and what is sealed under them, tenant by tenant, to those in use."""

from __future__ import annotations

from functools import reduce
from typing import Annotated, Any

from prefect import State, flow
from pydantic import Field

from core.batch.rotate import Portion, Report
from core.errors import EngineError
from tasks.engine import engine_kept_open, stop_soon
from tasks.pieces import all_of, ended
from tasks.rotate import plan_rotate, rotate_batches
from tasks.seen import mark_run, named

BATCHES_A_TASK = 20


@flow(name="rotate", flow_run_name=named("rotate"), persist_result=False)
def rotate(
    tenants: Annotated[list[str] | None, Field(description="Only these tenants; none given: all of them")] = None,
    new_key: Annotated[bool, Field(description="Make a new data key for each of them first")] = False,
    max_tasks: Annotated[int, Field(ge=1, le=100_000, description="Pieces of a tenant's work, at the most")] = 10_000,
) -> State[list[Report]]:
    """Put keys, and what is sealed under them, under those in use. Can be stopped, run twice, run beside itself.

    One report a tenant. A tenant that fails does not stop the others: the run ends Failed, with the reports in the
    `reports` of the error's details.
    """
    reports: list[Report] = []
    problems: dict[str, EngineError] = {}
    with engine_kept_open():
        try:
            portions = plan_rotate(tenants, new_key=new_key)
            mark_run("rotate", [one.tenant for one in portions])
            for portion in portions:
                done, problem = all_of(portion, max_tasks, _task, Report)
                reports.append(reduce(Report.plus, done, Report(tenant=portion.tenant)))
                if problem is not None:
                    problems[portion.tenant] = problem
        except BaseException:
            # Ctrl-C reaches this thread alone: the batch under way ends, and none begins after it.
            stop_soon()
            raise
    told = [f"{one.tenant} left: {one.postponed}" for one in reports if one.postponed]
    if failed := sum(one.failed for one in reports):
        told.append(f"{failed} cannot be opened")
    return ended("rotate", reports, problems, told)


def _task(portion: Portion) -> State[Any]:
    return rotate_batches(portion, BATCHES_A_TASK, return_state=True)


if __name__ == "__main__":
    rotate()
