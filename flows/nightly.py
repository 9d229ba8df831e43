"""The nightly flow: every chore in turn, then the closing report, which is made also when a chore failed."""

from __future__ import annotations

from typing import Annotated, Any

from prefect import State, flow
from prefect.states import Completed, Failed
from pydantic import Field

from core.errors import EngineError, Permanent
from flows.archive import archive
from flows.embed import TenantRun, embed
from flows.reap import reap
from tasks.engine import engine_kept_open
from tasks.report import Effort, Row, closing_report

REPORT_KEY = "nightly-report"


@flow(name="nightly", flow_run_name="nightly: embed, archive, reap, report", persist_result=False)
def nightly(
    max_rounds: Annotated[int, Field(ge=1, le=1000, description="Rounds of embed, at the most")] = 100,
) -> State[list[Row]]:
    """Embed what waits, archive and reap by policy, for all tenants, and report.

    A row a tenant, kept as the table `nightly-report` too. Ends Failed when a chore failed, with the rows in the
    `rows` of the error's details.
    """
    with engine_kept_open():
        state: State[Any] = embed(max_rounds=max_rounds, return_state=True)
        result = state.result(raise_on_failure=False)
        note = f"embed: {state.message or state.name}"
        others: dict[str, State[Any]] = {
            "archive": archive(return_state=True),
            "reap": reap(return_state=True),
        }
        said = [f"{name}: {one.message or one.name}" for name, one in others.items() if one.message != "completed"]
        note = "; ".join([note, *said])
        rows = closing_report(REPORT_KEY, efforts_of(result), note)
    failed = next((one for one in (state, *others.values()) if not one.is_completed()), None)
    if failed is None:
        return Completed(message="; ".join([str(state.message), *said]), data=rows)
    result = failed.result(raise_on_failure=False)
    kind = type(result) if isinstance(result, EngineError) else Permanent
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
