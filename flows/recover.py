"""The recover flow: each tenant's index from record and snapshot, piece after piece; the embed flow does the rest."""

from __future__ import annotations

from typing import Annotated

from prefect import State, flow
from pydantic import Field

from core.batch.recover import BEGINNING, Report, total
from core.errors import EngineError, Permanent
from tasks.engine import engine_kept_open
from tasks.pieces import came_of, ended
from tasks.recover import plan_recover, recover_piece
from tasks.seen import mark_run, named


@flow(name="recover", flow_run_name=named("recover"), persist_result=False)
def recover(
    tenants: Annotated[list[str] | None, Field(description="Only these tenants; none given: all of them")] = None,
    max_pieces: Annotated[
        int, Field(ge=1, le=100_000, description="Pieces of one tenant at the most; run again to go on")
    ] = 10_000,
) -> State[list[Report]]:
    """Rebuild lost or damaged indexes. Can be stopped, run twice, and run beside writes.

    One report a tenant. A tenant that fails does not stop the others: the run goes on and ends Failed, with the
    reports in the `reports` of the error's details.
    """
    reports: list[Report] = []
    problems: dict[str, EngineError] = {}
    with engine_kept_open():
        planned = plan_recover(tenants)
        mark_run("recover", planned)
        for tenant in planned:
            done, problem = _rebuild(tenant, max_pieces)
            reports.append(total(tenant, done))
            if problem is not None:
                problems[tenant] = problem
    told = [f"{one.tenant} skipped: {one.skipped}" for one in reports if one.skipped]
    told += [f"{len(one.damaged)} damaged objects of {one.tenant}" for one in reports if one.damaged]
    if waiting := sum(one.figures.enqueued for one in reports):
        told.append(f"{waiting} left to the embed chore")
    return ended("recover", reports, problems, told)


def _rebuild(tenant: str, most: int) -> tuple[list[Report], EngineError | None]:
    done: list[Report] = []
    cursor = BEGINNING
    for _ in range(most):
        state = recover_piece(tenant, cursor, return_state=True)
        result = came_of(state, Report, "the piece")
        if isinstance(result, EngineError):
            return done, result
        done.append(result)
        if result.cursor is None:
            return done, None
        cursor = result.cursor
    return done, Permanent(f"stopped after {most} pieces: run it again")


if __name__ == "__main__":
    recover()
