"""The snapshot flow: tenant after tenant, portion after portion, until each snapshot is whole."""

from __future__ import annotations

from typing import Annotated

from prefect import State, flow
from pydantic import Field

from core.batch.snapshot import Report, total
from core.errors import EngineError
from tasks.engine import engine_kept_open
from tasks.ledger import ship_deletions
from tasks.pieces import came_of, ended
from tasks.seen import mark_run, named
from tasks.snapshot import plan_snapshot, snapshot_portion


@flow(name="snapshot", flow_run_name=named("snapshot"), persist_result=False)
def snapshot(
    tenants: Annotated[list[str] | None, Field(description="Only these tenants; none given: all of them")] = None,
    max_portions: Annotated[
        int, Field(ge=1, le=10_000, description="Portions of one tenant at the most; the next run goes on")
    ] = 1000,
) -> State[list[Report]]:
    """Write what changed in each live generation to the object store. Can be stopped, and run twice.

    One report a tenant. A tenant that fails does not stop the others: the run goes on and ends Failed, with the
    reports in the `reports` of the error's details.
    """
    reports: list[Report] = []
    problems: dict[str, EngineError] = {}
    with engine_kept_open():
        planned = plan_snapshot(tenants)
        mark_run("snapshot", planned)
        for tenant in planned:
            done, problem = _take(tenant, max_portions)
            reports.append(total(tenant, done))
            if problem is not None:
                problems[tenant] = problem
        waiting = ship_deletions()
    told = [f"{one.tenant} skipped: {one.skipped}" for one in reports if one.skipped]
    told += [f"{len(one.damaged)} damaged objects of {one.tenant}" for one in reports if one.damaged]
    told += [f"{one.tenant} goes on in the next run" for one in reports if not one.done and one.tenant not in problems]
    told += [f"deletions wait: {waiting}"] if waiting else []
    return ended("snapshot", reports, problems, told)


def _take(tenant: str, most: int) -> tuple[list[Report], EngineError | None]:
    done: list[Report] = []
    for _ in range(most):
        state = snapshot_portion(tenant, return_state=True)
        result = came_of(state, Report, "the portion")
        if isinstance(result, EngineError):
            return done, result
        done.append(result)
        if result.done:
            break
    return done, None


if __name__ == "__main__":
    snapshot()
