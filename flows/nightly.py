"""The nightly flow: every chore in turn, then the closing report, which is made also when a chore failed."""

from __future__ import annotations

from typing import Annotated, Any

from prefect import State, flow
from prefect.states import Completed, Failed
from pydantic import Field

from core.errors import EngineError, Permanent
from flows.embed import TenantRun, embed
from flows.snapshot import snapshot
from tasks.engine import engine_kept_open
from tasks.reindex import sweep_generations
from tasks.report import Effort, Row, closing_report

REPORT_KEY = "nightly-report"


@flow(name="nightly", flow_run_name="nightly: embed, snapshot, report", persist_result=False)
def nightly(
    max_rounds: Annotated[int, Field(ge=1, le=1000, description="Rounds of embed, at the most")] = 100,
) -> State[list[Row]]:
    """Embed what waits, take snapshots, drop indexes that are due, and report: a row a tenant.

    The report is kept as the table `nightly-report` too.

    Ends Failed when a chore failed, with the rows in the `rows` of the error's details.
    """
    with engine_kept_open():
        state: State[Any] = embed(max_rounds=max_rounds, return_state=True)
        result = state.result(raise_on_failure=False)
        kept: State[Any] = snapshot(return_state=True)
        note = f"embed: {state.message or state.name}; snapshot: {kept.message or kept.name}"
        swept: State[Any] = sweep_generations(return_state=True)
        if not swept.is_completed():
            note += f"; sweep of generations: {swept.message}"
        rows = closing_report(REPORT_KEY, efforts_of(result), note)
    if state.is_completed() and kept.is_completed():
        return Completed(message=state.message, data=rows)
    failed = result if not state.is_completed() else kept.result(raise_on_failure=False)
    kind = type(failed) if isinstance(failed, EngineError) else Permanent
    return Failed(message=note, data=kind(note, rows=rows))


def efforts_of(result: object) -> dict[str, Effort]:
    """What embed did, by tenant: from its result, or from the error it ended with."""
    runs = result.details.get("runs", []) if isinstance(result, EngineError) else result
    found = [run for run in runs if isinstance(run, TenantRun)] if isinstance(runs, list) else []
    return {
        run.tenant: Effort(
            embedded=run.report.embedded,
            seconds=run.seconds,
            problem=None if run.problem is None else run.problem.message,
        )
        for run in found
    }


if __name__ == "__main__":
    nightly()
