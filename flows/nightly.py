"""The nightly flow: every chore in turn, then the closing report, which is made also when a chore failed."""

from __future__ import annotations

from typing import Annotated, Any

from prefect import State, flow
from prefect.states import Completed, Failed
from pydantic import Field

from core.batch.quality import Report
from core.errors import EngineError, Permanent
from flows.archive import archive
from flows.embed import TenantRun, embed
from flows.mend import mend
from flows.quality import quality
from flows.reap import reap
from flows.snapshot import snapshot
from tasks.engine import engine_kept_open
from tasks.reindex import sweep_generations
from tasks.report import Effort, Row, closing_report
from tasks.seen import mark_run

REPORT_KEY = "nightly-report"


@flow(
    name="nightly", flow_run_name="nightly: embed, mend, archive, reap, snapshot, quality, report", persist_result=False
)
def nightly(
    max_rounds: Annotated[int, Field(ge=1, le=1000, description="Rounds of embed, at the most")] = 100,
) -> State[list[Row]]:
    """Embed what waits, mend drift, archive and reap by policy, take snapshots, drop old indexes, judge samples.

    A row a tenant, kept as the table `nightly-report` too. Ends Failed when a chore failed, with the rows in the
    `rows` of the error's details: one chore's failure keeps none of the others from its turn.
    """
    with engine_kept_open():
        states: dict[str, State[Any]] = {"embed": embed(max_rounds=max_rounds, return_state=True)}
        result = states["embed"].result(raise_on_failure=False)
        failing = [tenant for tenant, effort in efforts_of(result).items() if effort.problem is not None]
        states["mend"] = mend(without=failing or None, return_state=True)
        states["archive"] = archive(return_state=True)
        states["reap"] = reap(return_state=True)
        states["snapshot"] = snapshot(return_state=True)
        states["sweep of generations"] = sweep_generations(return_state=True)
        states["quality"] = quality(return_state=True)
        said = [f"{name}: {one.message or one.name}" for name, one in states.items() if _says(name, one)]
        note = "; ".join(f"{name}: {one.message or one.name}" for name, one in states.items())
        rows = closing_report(REPORT_KEY, efforts_of(result), note, docs_of(states["quality"]))
        mark_run("nightly", [row.tenant for row in rows], f"{sum(row.records for row in rows):,} records")
    failed = next((one for one in states.values() if not one.is_completed()), None)
    if failed is None:
        return Completed(message="; ".join([str(states["embed"].message), *said]), data=rows)
    problem = failed.result(raise_on_failure=False)
    kind = type(problem) if isinstance(problem, EngineError) else Permanent
    return Failed(message=note, data=kind(note, rows=rows))


def _says(name: str, state: State[Any]) -> bool:
    """Whether the end of a chore is worth a word. Embed has the first one anyway."""
    return name != "embed" and (not state.is_completed() or state.message not in {None, "", "completed"})


def docs_of(state: State[Any]) -> str | None:
    """Where the pages of the quality gates are, whether these passed or not; None: there are none."""
    result = state.result(raise_on_failure=False)
    reports = result.details.get("reports", []) if isinstance(result, EngineError) else result
    found = [one.docs for one in reports if isinstance(one, Report) and one.docs] if isinstance(reports, list) else []
    return found[-1] if found else None


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
