"""The relay flow: tenant after tenant, portion after portion, until all events are told."""

from __future__ import annotations

from typing import Annotated, Any

from prefect import State, flow
from prefect.states import Completed, Failed
from pydantic import Field

from core.batch.relay import Report
from core.errors import EngineError
from tasks.engine import engine_kept_open
from tasks.pieces import came_of
from tasks.relay import plan_relay, relay_portion
from tasks.seen import mark_run, named, row_of, show_table


@flow(name="relay", flow_run_name=named("relay"), persist_result=False)
def relay(
    tenants: Annotated[list[str] | None, Field(description="Only these tenants; none given: all of them")] = None,
    max_portions: Annotated[int, Field(ge=1, le=10_000, description="Portions of one tenant at the most")] = 1000,
) -> State[list[Report]]:
    """Tell the events of each tenant to its stream. Can be stopped, and run twice. One report a portion.

    A tenant that fails does not stop the others: the run ends Failed, with the reports in the `reports` of the details.
    """
    reports: list[Report] = []
    problems: list[EngineError] = []
    with engine_kept_open():
        planned = plan_relay(tenants)
        mark_run("relay", planned)
        for tenant in planned:
            for _ in range(max_portions):
                state: State[Any] = relay_portion(tenant, return_state=True)
                result = came_of(state, Report, "the portion")
                if isinstance(result, EngineError):
                    problems.append(result)
                    break
                reports.append(result)
                if result.done:
                    break
    told = [f"{sum(one.told for one in reports)} events told"]
    told += sorted({f"skipped: {one.skipped}" for one in reports if one.skipped})
    show_table("relay-report", [row_of(one) for one in reports], ", ".join(told))
    if not problems:
        return Completed(message=", ".join(["completed", *told]), data=reports)
    message = "; ".join([problems[0].message, *told])
    return Failed(message=message, data=type(problems[0])(message, reports=reports))


if __name__ == "__main__":
    relay()
