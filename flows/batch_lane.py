"""The batch lane's flow: look at every open job once, keep what came, and end. It waits for no provider."""

from __future__ import annotations

from typing import Annotated, Any

from prefect import State, flow
from prefect.states import Completed, Failed
from pydantic import Field

from core.batch.batch_lane import Followed
from core.errors import EngineError, Permanent
from core.model.batch import BatchJob
from tasks.batch_lane import follow_batch_job, list_batch_jobs, sweep_batch_jobs
from tasks.engine import engine_kept_open, stop_soon
from tasks.seen import mark_run, named, show_table


@flow(name="batch lane", flow_run_name=named("batch lane"), persist_result=False)
def batch_lane(
    tenants: Annotated[list[str] | None, Field(description="Only these tenants; none given: all of them")] = None,
) -> State[list[Followed]]:
    """Look at every open batch job once. Can be stopped, run twice and run beside itself.

    One result a job. A job that cannot be asked about does not stop the others: the run ends Failed, with the
    results in the `followed` of the error's details. What came is brought by the next embed run.
    """
    with engine_kept_open():
        jobs = list_batch_jobs(tenants)
        mark_run("batch lane", [job.tenant for job in jobs])
        try:
            ends = [(job, follow_batch_job(job, return_state=True)) for job in jobs]
        except BaseException:
            stop_soon()
            raise
        sweep_batch_jobs(tenants)
    return _closing(ends)


def _closing(ends: list[tuple[BatchJob, State[Any]]]) -> State[list[Followed]]:
    results = [(job, state.result(raise_on_failure=False)) for job, state in ends]
    followed = [result for _, result in results if isinstance(result, Followed)]
    problems = [(job, _problem(result)) for job, result in results if not isinstance(result, Followed)]
    kept = sum(one.kept for one in followed)
    open_jobs = sum(one.state in ("preparing", "submitted", "running", "cancelling") for one in followed)
    told = [f"{open_jobs} of {len(ends)} jobs are under way"] if ends else ["no open jobs"]
    told += [f"{kept} vectors kept for the next embed run"] if kept else []
    told += [f"{one.job.id} left: {one.postponed}" for one in followed if one.postponed]
    show_table("batch-lane-report", [_row(one) for one in followed], ", ".join(told))
    if not problems:
        return Completed(message=", ".join(["completed", *told]), data=followed)
    message = "; ".join([f"{job.id} of {job.tenant} failed: {problem.message}" for job, problem in problems] + told)
    return Failed(message=message, data=type(problems[0][1])(message, followed=followed))


def _row(one: Followed) -> dict[str, str | int | float]:
    return {
        "job": str(one.job.id),
        "tenant": one.job.tenant,
        "model": one.job.model,
        "state": str(one.state),
        "vectors kept": one.kept,
        "set aside": one.refused,
        "problem": one.postponed or "",
    }


def _problem(result: object) -> EngineError:
    return result if isinstance(result, EngineError) else Permanent("the look at the job ended without a result")


if __name__ == "__main__":
    batch_lane()
