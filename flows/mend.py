"""Reconcile and what follows from it: lost indexes recovered, what was asked for embedded, and a second look."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

from prefect import State, flow
from prefect.states import Completed, Failed
from pydantic import Field

from core.errors import EngineError, Permanent
from core.model.drift import Depth, StoreReport, Verdict
from flows.embed import embed
from flows.reconcile import reconcile
from flows.recover import recover
from tasks.engine import engine_kept_open
from tasks.seen import mark_run, named, place_of, show_table


@flow(name="mend", flow_run_name=named("mend"), persist_result=False)
def mend(
    tenants: Annotated[list[str] | None, Field(description="Only these tenants; none given: all of them")] = None,
    without: Annotated[
        list[str] | None, Field(description="Tenants for whom nothing is embedded now, because that failed just before")
    ] = None,
    depth: Annotated[Depth, Field(description="How deep to look; see reconcile")] = Depth.DIGESTS,
) -> State[list[StoreReport]]:
    """Look for drift and bring everything that differs back in step, as far as it can be done now.

    One report for each store of each tenant, as `reconcile` gives them; an index that was recovered counts as
    repaired once a second look found it in step. Ends Failed when a chore failed.
    """
    with engine_kept_open():
        looked: State[Any] = reconcile(tenants=tenants, depth=depth, return_state=True)
        reports = _reports(looked)
        ended: list[State[Any]] = [looked]
        mark_run("mend", [one.tenant for one in reports])
        gone = list(dict.fromkeys(one.tenant for one in reports if one.recover))
        if gone:
            ended.append(recover(tenants=gone, return_state=True))
        # What an earlier look asked for waits, which is unsettled now.
        asked = (one.tenant for one in reports if one.found > one.left or one.unsettled)
        wrong = list(dict.fromkeys([*gone, *asked]))
        spared = [one for one in wrong if one in (without or ())]
        wrong = [one for one in wrong if one not in spared]
        if wrong:
            ended.append(embed(tenants=wrong, return_state=True))
        if gone:
            again: State[Any] = reconcile(tenants=gone, depth=Depth.DIGESTS, return_state=True)
            ended.append(again)
            reports = _after(reports, _reports(again))
    failed = [one for one in ended if not one.is_completed()]
    told = [one.message or str(one.name) for one in (failed or ended)]
    told += [f"{one} not embedded again: it failed just now" for one in spared]
    message = "; ".join(told)
    show_table("mend-report", [_row(one) for one in reports], message)
    if not failed:
        return Completed(message=message, data=reports)
    problem = failed[0].result(raise_on_failure=False)
    kind = type(problem) if isinstance(problem, EngineError) else Permanent
    return Failed(message=message, data=kind(message, reports=reports))


def _row(one: StoreReport) -> dict[str, str | int | float]:
    return {
        "tenant": one.tenant,
        "store": place_of(one.store, one.generation),
        "verdict": one.verdict.value,
        "found": one.found,
        "left": one.left,
        "set aside": one.set_aside,
        "why": one.alarm or one.note,
    }


def _reports(state: State[Any]) -> list[StoreReport]:
    result = state.result(raise_on_failure=False)
    found = result.details.get("reports", []) if isinstance(result, EngineError) else result
    return [one for one in found if isinstance(one, StoreReport)] if isinstance(found, list) else []


def _after(first: list[StoreReport], second: list[StoreReport]) -> list[StoreReport]:
    """The first reports; of an index that was recovered, what the second look says of it."""
    now = {(one.tenant, one.store, one.generation): one for one in second}
    return [_recovered(one, now.get((one.tenant, one.store, one.generation))) for one in first]


def _recovered(before: StoreReport, now: StoreReport | None) -> StoreReport:
    if not before.recover or now is None or now.recover or now.verdict is Verdict.SKIPPED:
        return before
    mended = tuple(replace(one, repaired=one.found, why="") for one in before.findings)
    return replace(now, verdict=before.verdict, findings=(*mended, *now.findings), note="it was recovered")


if __name__ == "__main__":
    mend()
