"""The closing report of a run: what each tenant has, what was done for it, what is left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from prefect import task

from core.assembly import Engine
from core.assembly.models import price_of
from core.model.coverage import LIVE
from core.model.reindex import GateVerdict
from tasks.boundary import RETRIED, task_boundary
from tasks.engine import shared_engine
from tasks.seen import place_of, reasons_of, show_docs, show_table

REPORT_SECONDS = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """What a run did for one tenant. `problem` says why it failed, if it did."""

    embedded: int
    seconds: float
    problem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One tenant's line of the report: `records`, `waiting` and `set_aside` as they are now.

    `reasons` are those of what was set aside; `cost` is today's (UTC), in US dollars at list prices, None where no
    price is known; `gate` is what the gate last said of the tenant's newest index that was put before it, `drift` what
    the last looks said of the tenant's stores.
    """

    tenant: str
    records: int
    embedded: int
    waiting: int
    set_aside: int
    seconds: float
    problem: str | None = None
    reasons: str = ""
    cost: float | None = None
    gate: str = ""
    drift: str = ""


@task(
    name="closing report",
    task_run_name="closing report of {key}",
    timeout_seconds=REPORT_SECONDS,
    **RETRIED,
)
def closing_report(
    key: str, efforts: Mapping[str, Effort], note: str | None = None, docs: str | None = None
) -> list[Row]:
    """A row a tenant, kept as the table artifact `key` (lower case, digits, dashes) with the note too.

    `docs` is where the pages of the run's quality gates are, if there are any: kept as a link.
    """
    with task_boundary("closing report"), shared_engine() as engine:
        idle = Effort(embedded=0, seconds=0.0)
        backlog = engine.backlog()
        cost = _cost_today(engine)
        drift = _drift(engine)
        gates = {one.tenant: _said(one.verdict) for one in engine.generations() if one.verdict is not None}
        rows = [
            Row(
                tenant=one.tenant,
                records=one.records,
                embedded=efforts.get(one.tenant, idle).embedded,
                waiting=one.waiting,
                set_aside=one.set_aside,
                seconds=round(efforts.get(one.tenant, idle).seconds, 1),
                problem=efforts.get(one.tenant, idle).problem,
                reasons=reasons_of(each.reason for each in engine.set_aside(one.tenant)) if one.set_aside else "",
                cost=cost.get(one.tenant),
                gate=gates.get(one.tenant, ""),
                drift=drift.get(one.tenant, ""),
            )
            for one in backlog
        ]
        show_table(key, [_shown(row) for row in rows], note)
        if docs:
            show_docs(docs)
        return rows


@task(
    name="cost of today",
    task_run_name="cost of today",
    timeout_seconds=REPORT_SECONDS,
    **RETRIED,
)
def costs_of(tenants: Sequence[str]) -> dict[str, float]:
    """What the tenants' embeddings cost today (UTC), in US dollars at list prices, where a price is known."""
    with task_boundary("cost of today"), shared_engine() as engine:
        found = _cost_today(engine)
        return {one: found[one] for one in tenants if one in found}


def _drift(engine: Engine) -> dict[str, str]:
    """What looks at each tenant's stores said, where it is not that all is well.

    Counts that agree are no comparison: drift that was found stays until a comparison was clean.
    """
    found: dict[str, list[str]] = {}
    for one in engine.upkeep.coverage():
        said = found.setdefault(one.tenant, [])
        where = place_of(one.store, one.generation)
        if one.verdict not in {None, "clean"}:
            said.append(f"{where}: {one.verdict}")
        elif one.found_at is not None and (one.clean_at is None or one.found_at > one.clean_at):
            said.append(f"{where}: drift, and not compared since")
        elif one.clean_at is None and one.state == LIVE:
            said.append(f"{where}: never compared")
    return {tenant: ", ".join(said) or "clean" for tenant, said in found.items()}


def _cost_today(engine: Engine) -> dict[str, float]:
    """What each tenant's embeddings cost today, where prices are known."""
    found: dict[str, float] = {}
    today = datetime.now(UTC).date()
    for one in engine.uses(1):
        money = one.money(price_of(one.provider, one.model), price_of(one.provider, one.model, batch=True))
        if money is not None and one.day == today:
            found[one.tenant] = found.get(one.tenant, 0.0) + money
    return found


def _said(verdict: GateVerdict) -> str:
    return "passed" if verdict.passed else verdict.reasons


def _shown(row: Row) -> dict[str, str | int | float]:
    return {
        "tenant": row.tenant,
        "records": row.records,
        "embedded": row.embedded,
        "waiting": row.waiting,
        "set aside": row.set_aside,
        "reasons": row.reasons,
        "cost today (USD)": "" if row.cost is None else round(row.cost, 4),
        "gate": row.gate,
        "drift": row.drift,
        "seconds": row.seconds,
        "problem": row.problem or "",
    }
