"""The reconcile flow: piece after piece of every tenant, so many at once; the queue of orphans; the report."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Annotated, Any

from prefect import State, flow
from prefect.futures import PrefectFuture, as_completed
from prefect.states import Completed, Failed
from prefect.task_runners import TaskRunner, ThreadPoolTaskRunner
from pydantic import Field

from core.batch.reconcile import Report, total
from core.errors import EngineError
from core.model.drift import Depth, Look, StoreReport
from tasks.engine import engine_kept_open, stop_soon
from tasks.pieces import came_of
from tasks.reconcile import plan_reconcile, publish_drift, reconcile_piece, remove_orphans
from tasks.seen import mark_run, named

MOST_AT_ONCE = 64
MOST_REMOVED = 1_000_000
_RUNNER: TaskRunner[Any] = ThreadPoolTaskRunner(max_workers=MOST_AT_ONCE)


@flow(name="reconcile", flow_run_name=named("reconcile"), task_runner=_RUNNER, persist_result=False)
def reconcile(
    tenants: Annotated[list[str] | None, Field(description="Only these tenants; none given: all of them")] = None,
    depth: Annotated[
        Depth, Field(description="counts: numbers; digests: of stretches of ids, too; full: every point and payload")
    ] = Depth.DIGESTS,
    dry: Annotated[bool, Field(description="Only say what is wrong")] = False,
) -> State[list[StoreReport]]:
    """Compare every store with the record and have what differs put right. Can be stopped, and run twice.

    One report for each store of each tenant. A piece that fails does not stop the others: the run goes on and ends
    Failed, with the reports in the `reports` of the error's details.
    """
    reports: list[Report] = []
    problems: list[EngineError] = []
    with engine_kept_open() as settings:
        try:
            looks = plan_reconcile(tenants)
            mark_run("reconcile", [one.tenant for one in looks])
            _look(looks, (depth, dry), settings.embed_tasks, reports, problems)
            queued = list(dict.fromkeys(one.tenant for one in reports if one.queued))
            if queued and not dry:
                _remove(queued, problems)
        except BaseException:
            # Ctrl-C reaches this thread alone: the pieces under way end at their next block.
            stop_soon()
            raise
        found = total(reports)
        publish_drift(found, return_state=True)
    told = [f"{len(problems)} pieces failed: {problems[0].message}"] if problems else []
    told += [f"{one.tenant}: {one.alarm}" for one in found if one.alarm]
    if wrong := sum(one.found for one in found):
        told.append(f"{wrong} found, {sum(one.left for one in found)} left")
    if skipped := sum(one.note.startswith("unreachable") for one in found):
        told.append(f"{skipped} stores were unreachable")
    if not problems:
        return Completed(message=", ".join(["completed", *told]), data=found)
    message = "; ".join(told)
    return Failed(message=message, data=type(problems[0])(message, reports=found))


def _look(
    looks: Iterable[Look], how: tuple[Depth, bool], at_once: int, reports: list[Report], problems: list[EngineError]
) -> None:
    """Do pieces, so many at once."""
    queue = deque(looks)
    under_way: set[PrefectFuture[Any]] = set()
    while queue or under_way:
        while queue and len(under_way) < at_once:
            under_way.add(reconcile_piece.submit(queue.popleft(), *how))
        done = next(iter(as_completed(list(under_way))))
        done.wait()
        under_way.remove(done)
        result = came_of(done.state, Report, "a piece")
        if isinstance(result, EngineError):
            problems.append(result)
        else:
            reports.append(result)


def _remove(tenants: list[str], problems: list[EngineError]) -> None:
    state: State[Any] = remove_orphans(tenants, MOST_REMOVED, return_state=True)
    result = state.result(raise_on_failure=False)
    if isinstance(result, EngineError):
        problems.append(result)


if __name__ == "__main__":
    reconcile()
