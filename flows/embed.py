"""The embed flow: all that waits in the outbox, portion by portion, until it is done or nothing moves."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from prefect import State, flow, runtime
from prefect.futures import PrefectFuture, as_completed
from prefect.states import Completed, Failed
from prefect.task_runners import TaskRunner
from pydantic import Field

from core.batch.batch_lane import Submitted, Submitting
from core.batch.embed import Portion, Report, packed, total
from core.errors import EngineError, Permanent, Transient
from tasks.batch_lane import plan_batch_jobs, submit_batch_jobs
from tasks.embed import embed_portion, embed_small_portions, plan_embed
from tasks.engine import engine_kept_open, stop_soon
from tasks.ledger import ship_deletions
from tasks.report import costs_of
from tasks.runner import ChosenRunner
from tasks.seen import Progress, mark_run, named, reasons_of, show_table

NO_JOB = "not for a batch job: the model has none, it was in three already, or another worker holds it"
NOT_NOW = "held by another worker, or to be tried again later"


@dataclass(slots=True)
class TenantRun:
    """What the flow did for one tenant.

    `seconds` is from its first portion to the end of its last, `left` what still waits because it cannot be
    done now (a store out of reach, entries another worker holds), `problem` what ended the tenant's run.
    """

    tenant: str
    reports: list[Report] = field(default_factory=list)
    problem: EngineError | None = None
    started: float = 0.0
    seconds: float = 0.0
    left: int = 0

    @property
    def report(self) -> Report:
        """All its portions as one."""
        return total(self.tenant, self.reports)

    @property
    def postponed(self) -> str | None:
        """Why work is left, if a portion said so."""
        said = [report.postponed for report in self.reports if report.postponed]
        return said[-1] if said and self.left else None


Runs = dict[str, TenantRun]
Piece = Portion | Submitting
Pack = tuple[Piece, ...]
# Small portions of several tenants are one task up to this part of a portion: about a second's work.
SMALL = 4

_RUNNER: TaskRunner[Any] = ChosenRunner()


@flow(
    name="embed",
    flow_run_name=named("embed"),
    task_runner=_RUNNER,
    persist_result=False,
)
def embed(
    tenants: Annotated[list[str] | None, Field(description="Only these tenants; none given: all of them")] = None,
    max_rounds: Annotated[
        int, Field(ge=1, le=1000, description="How often the backlog is looked at again before the run ends")
    ] = 100,
    lane: Annotated[
        Literal["online", "batch"],
        Field(description="batch: put what needs embedding into the provider's batch jobs, at half the price"),
    ] = "online",
) -> State[list[TenantRun]]:
    """Bring the indexes up to date with the record. Can be stopped, run twice and run beside itself.

    In the batch lane what needs an embedding waits for the provider's jobs, which the flow `batch lane` follows.
    One result a tenant that had work. A tenant that fails (Misconfigured, say) does not stop the others:
    the run goes on and ends Failed, with the results in the `runs` of the error's details.
    """
    runs: Runs = {}
    progress = Progress("embed-progress", "embed", time.monotonic)
    with engine_kept_open() as settings:
        for turn in range(max_rounds):
            portions = [one for one in _planned(tenants, lane) if _can_go_on(runs, one.tenant)]
            if turn == 0 and portions:
                mark_run("embed", (one.tenant for one in portions), f"{sum(one.records for one in portions):,} entries")
            before = _worked(runs)
            try:
                _do(_packs(portions, settings.embed_portion), runs, settings.embed_tasks, progress)
            except BaseException:
                # Ctrl-C reaches this thread alone: the portions under way end after their present batches.
                stop_soon()
                raise
            if _worked(runs) == before:
                _note_left(portions, runs)
                return _closing(list(runs.values()), *_shipped())
        return _closing(list(runs.values()), f"stopped after {max_rounds} rounds", *_shipped())


def _shipped() -> list[str]:
    """Deletions go to the ledger at the end of each run; a note, if they could not."""
    waiting = ship_deletions()
    return [f"deletions wait: {waiting}"] if waiting else []


def _planned(tenants: list[str] | None, lane: Literal["online", "batch"]) -> Sequence[Piece]:
    return plan_embed(tenants) if lane == "online" else plan_batch_jobs(tenants)


def _packs(pieces: Sequence[Piece], portion: int) -> list[Pack]:
    portions = [one for one in pieces if isinstance(one, Portion)]
    rest: list[Pack] = [(one,) for one in pieces if not isinstance(one, Portion)]
    return [*packed(portions, portion // SMALL), *rest]


def _do(packs: Sequence[Pack], runs: Runs, at_once: int, progress: Progress) -> None:
    """Do packs, so many at once; the rest of a tenant's is dropped once one of its portions failed."""
    queue = deque(packs)
    under_way: dict[PrefectFuture[Any], Pack] = {}
    before = _worked(runs)
    total = before + sum(one.records for pack in packs for one in pack)
    progress.show(before, total)
    while queue or under_way:
        while queue and len(under_way) < at_once:
            pack = tuple(one for one in _next(queue, under_way.values()) if _can_go_on(runs, one.tenant))
            for one in pack:
                runs.setdefault(one.tenant, TenantRun(one.tenant, started=time.monotonic()))
            if pack:
                under_way[_begun(pack)] = pack
        if under_way:
            done = next(iter(as_completed(list(under_way))))
            done.wait()  # ended it has, but its state is known only after this
            queue.extend((one,) for one in _note(runs, under_way.pop(done), done.state))
            progress.show(min(total, _worked(runs)), total)


def _begun(pack: Pack) -> PrefectFuture[Any]:
    first = pack[0]
    if isinstance(first, Submitting):
        return submit_batch_jobs.submit(first)
    portions = tuple(one for one in pack if isinstance(one, Portion))
    return embed_portion.submit(first) if len(portions) == 1 else embed_small_portions.submit(portions)


def _next(queue: deque[Pack], under_way: Iterable[Pack]) -> Pack:
    """The first pack whose tenants have nothing under way, or the first of all."""
    busy = {one.tenant for pack in under_way for one in pack}
    free = next((pack for pack in queue if not any(one.tenant in busy for one in pack)), queue[0])
    queue.remove(free)
    return free


def _note(runs: Runs, pack: Pack, state: State[Any]) -> list[Piece]:
    """Take note of how a pack ended; those of its portions that are worth another try, each on its own."""
    result = state.result(raise_on_failure=False)
    ends = result if isinstance(result, list) else [result] * len(pack)
    again: list[Piece] = []
    for one, end in zip(pack, ends, strict=True):
        run = runs[one.tenant]
        run.seconds = time.monotonic() - run.started
        if isinstance(end, Report | Submitted):
            run.reports.append(end if isinstance(end, Report) else _report_of(end))
        elif len(pack) > 1 and (isinstance(end, Transient) or not isinstance(end, EngineError)):
            # A task of its own is tried again by the type of its error; time that ran out, or a crash, blames nobody.
            again.append(one)
        elif run.problem is None:
            unknown = Permanent(f"the portion ended as {state.name}")
            run.problem = end if isinstance(end, EngineError) else unknown
    return again


def _report_of(submitted: Submitted) -> Report:
    """What was put in jobs, and done on the way, as a report like others."""
    return Report(
        tenant=submitted.tenant,
        batched=submitted.entries,
        reused=submitted.reused,
        unchanged=submitted.brought,
        set_aside_count=submitted.set_aside,
        postponed=submitted.postponed or (NO_JOB if submitted.done else None),
        done=submitted.done,
    )


def _note_left(portions: Iterable[Piece], runs: Runs) -> None:
    """These portions were tried and nothing came of them."""
    for portion in portions:
        runs[portion.tenant].left += portion.records


def _can_go_on(runs: Runs, tenant: str) -> bool:
    return tenant not in runs or runs[tenant].problem is None


def _worked(runs: Runs) -> int:
    """Entries brought to an end so far, those set aside included: what makes another round worth it."""
    reports = [report for run in runs.values() for report in run.reports]
    return sum(report.worked + report.batched + report.set_aside_count for report in reports)


def _closing(runs: list[TenantRun], *notes: str) -> State[list[TenantRun]]:
    """Failed if a tenant failed outright; the message also says what was set aside and what is left."""
    told = [f"{run.tenant} failed: {run.problem.message}" for run in runs if run.problem is not None]
    if set_aside := sum(run.report.set_aside_count for run in runs):
        told.append(f"{set_aside} set aside")
    if batched := sum(run.report.batched for run in runs):
        told.append(f"{batched} in batch jobs")
    told += [f"{run.left} of {run.tenant} left: {run.postponed or NOT_NOW}" for run in runs if _is_left(run)]
    told += notes
    _show(runs, ", ".join(told))
    problems = [run.problem for run in runs if run.problem is not None]
    if not problems:
        return Completed(message=", ".join(["completed", *told]), data=runs)
    message = "; ".join(told)
    return Failed(message=message, data=type(problems[0])(message, runs=runs))


def _show(runs: list[TenantRun], note: str) -> None:
    """The closing table. A run that is part of another leaves it to that one's report."""
    if runs and runtime.flow_run.parent_flow_run_id is None:
        state: State[Any] = costs_of([run.tenant for run in runs], return_state=True)
        found = state.result(raise_on_failure=False)
        costs = found if isinstance(found, dict) else {}
        show_table("embed-report", [_row(run, costs.get(run.tenant)) for run in runs], note or "completed")


def _row(run: TenantRun, cost: float | None) -> dict[str, str | int | float]:
    report = run.report
    return {
        "tenant": run.tenant,
        "embedded": report.embedded,
        "reused": report.reused,
        "payload only": report.payload_only,
        "deleted": report.deleted,
        "in batch jobs": report.batched,
        "set aside": report.set_aside_count,
        "reasons": reasons_of(report.set_aside.values()),
        "left": run.left,
        "cost today (USD)": "" if cost is None else round(cost, 4),
        "seconds": round(run.seconds, 1),
        "problem": run.postponed or (run.problem.message if run.problem is not None else ""),
    }


def _is_left(run: TenantRun) -> bool:
    return bool(run.left) and run.problem is None


if __name__ == "__main__":
    embed()
