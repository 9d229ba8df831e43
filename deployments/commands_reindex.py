"""The command `memory reindex`: to another embedding model, with no downtime."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from core.errors import EngineError, Refused
from core.index.estimate import Estimate
from core.model.use import MILLION
from core.settings import load_settings
from deployments import options
from deployments.output import Exit, hint, report_json_error, say, show_json, show_table
from deployments.progress import bar
from tasks.engine import shared_engine

if TYPE_CHECKING:
    from prefect import State

    from flows.reindex import TenantReindex

Model = Annotated[
    str, typer.Option(metavar="NAME", help="A name of MEMORY_EMBEDDING_MODELS, wordllama, or the provider's model.")
]
AllTenants = Annotated[bool, typer.Option("--all", help="Every tenant; else name them with --tenant.")]
Dimensions = Annotated[int | None, typer.Option(min=1, help="Another width than the model's own.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what it would take; nothing is begun.")]
MaxCost = Annotated[
    float | None, typer.Option(min=0, metavar="USD", help="Spend no more than this, at the model's list price.")
]
AtRate = Annotated[int | None, typer.Option(min=1, metavar="N", help="Records a second, at the most.")]
NoSwap = Annotated[bool, typer.Option("--no-swap", help="Stop before the swap, for a person to look.")]
Grace = Annotated[
    str | None, typer.Option(metavar="SPAN", help="How long the old index is kept for a rollback: 24h, 30m, 7d.")
]

ESTIMATED = ("tenant", "records", "reusable", "tokens", "cost", "batch_cost", "seconds")
ESTIMATE_COLUMNS = ("tenant", "records", "reusable", "tokens", "cost", "cost in batch jobs", "seconds")
COLUMNS = ("tenant", "generation", "records", "set aside", "tokens", "seconds", "outcome")
UNITS = {"m": 1 / 60, "h": 1.0, "d": 24.0}


def reindex(  # noqa: PLR0913, PLR0917  options of a command
    model: Model,
    tenants: options.SomeTenants = None,
    all_tenants: AllTenants = False,
    dimensions: Dimensions = None,
    dry_run: DryRun = False,
    max_cost: MaxCost = None,
    at_rate: AtRate = None,
    no_swap: NoSwap = False,
    grace: Grace = None,
    lane: options.InLane = options.Lane.ONLINE,
    as_json: options.AsJson = False,
) -> None:
    """Move tenants to another embedding model, while reads, writes and deletes go on.

    A new index is built beside the old one, compared with the record, tried, and swapped in at one stroke. Can be
    stopped or killed and run again: it goes on where it was. `memory rollback` undoes the swap. With `--lane batch`
    it ends once everything is in the provider's batch jobs: run it again when they have ended.

    \b
    Examples:
      memory reindex --tenant clinic --model text-embedding-3-small --dry-run
      memory reindex --tenant clinic --model wordllama --dimensions 128
      memory reindex --all --model small --at-rate 500 --max-cost 20
      memory reindex --tenant clinic --model small --lane batch
    """
    if not tenants and not all_tenants:
        raise Refused("name tenants with --tenant, or say --all", where="--tenant")
    named = None if all_tenants else tenants
    if dry_run:
        _show_estimates(named, model, dimensions, at_rate, as_json=as_json)
        return
    given = {
        "model": model,
        "tenants": named,
        "dimensions": dimensions,
        "at_rate": at_rate,
        "max_cost": max_cost,
        "swap": not no_swap,
        "grace_hours": None if grace is None else _hours(grace),
        "lane": lane.value,
    }
    state, result = _run(given, named, shown=not as_json)
    _finish(state, result, as_json=as_json)


def _hours(span: str) -> float:
    """`30m`, `24h`, `7d`; a plain number counts hours."""
    number, unit = (span[:-1], span[-1]) if span[-1:] in UNITS else (span, "h")
    try:
        hours = float(number) * UNITS[unit]
    except ValueError:
        raise Refused(f"{span!r} is no span such as 30m, 24h or 7d", where="--grace") from None
    if hours < 0:
        raise Refused("a span cannot be negative", where="--grace")
    return hours


def _run(given: dict[str, Any], tenants: Sequence[str] | None, *, shown: bool) -> tuple[State[Any], object]:
    from deployments.commands_run import run_flow

    def flow() -> State[Any]:
        from flows.reindex import reindex as reindex_flow

        return reindex_flow(**given, return_state=True)

    return run_flow(flow, tenants, shown=shown)


def _finish(state: State[Any], result: object, *, as_json: bool) -> None:
    from deployments.commands_run import listed
    from flows.reindex import DONE, Ending

    runs: list[TenantReindex] = listed(result, "runs")
    message = state.message or state.name or "ended"
    failed = not state.is_completed()
    if as_json:
        show_json({"message": message, "failed": failed, "tenants": [_as_dict(run) for run in runs]})
        if failed:
            kind = type(result).__name__ if isinstance(result, EngineError) else "Permanent"
            report_json_error({"kind": kind, "message": message})
    else:
        show_table(COLUMNS, [_row(run) for run in runs])
        (hint if failed else say)(message)
    if failed:
        raise typer.Exit(Exit.FAILED)
    if any(run.ending is Ending.IN_JOBS for run in runs):
        hint("`memory run batch-lane` keeps what comes; then the same reindex goes on.")
    if any(run.ending not in DONE or run.set_aside for run in runs):
        raise typer.Exit(Exit.IN_PART)


def _row(run: TenantReindex) -> tuple[object, ...]:
    outcome = run.problem.message if run.problem is not None else str(run.ending)
    return (run.tenant, run.generation, run.fed, run.set_aside, run.tokens, round(run.seconds, 1), outcome)


def _as_dict(run: TenantReindex) -> dict[str, Any]:
    return {
        "tenant": run.tenant,
        "generation": run.generation,
        "outcome": str(run.ending),
        "records": run.fed,
        "set_aside": run.set_aside,
        "tokens": run.tokens,
        "seconds": round(run.seconds, 1),
        "verdict": None if run.verdict is None else run.verdict.as_dict(),
        "problem": None if run.problem is None else run.problem.message,
    }


def _show_estimates(
    tenants: Sequence[str] | None, model: str, dimensions: int | None, at_rate: int | None, *, as_json: bool
) -> None:
    from core.assembly.models import price_of

    load_settings()
    with shared_engine() as engine:
        space = engine.space_of(model, dimensions)
        price = price_of(space.provider, space.model)
        batch_price = price_of(space.provider, space.model, batch=True)
        names = [one.tenant for one in engine.backlog()] if tenants is None else list(dict.fromkeys(tenants))
        found: dict[str, Estimate] = {}
        with bar("reading records", len(names), shown=not as_json) as advance:
            for name in names:
                found[name] = engine.estimate(name, space)
                advance(len(found))
    rows = [_estimated(name, one, (price, batch_price), at_rate) for name, one in found.items()]
    if as_json:
        show_json({"model": space.model, "dimensions": space.dimensions, "price": price, "tenants": rows})
        return
    show_table(ESTIMATE_COLUMNS, [["-" if row[name] is None else row[name] for name in ESTIMATED] for row in rows])
    tokens = sum(one.tokens for one in found.values())
    cost = "at a price that is not known" if price is None else f"{tokens * price / MILLION:.4f} USD"
    batch_cost = "" if batch_price is None else f", in batch jobs {tokens * batch_price / MILLION:.4f} USD"
    say(f"\n{tokens:,} tokens to {space.provider} {space.model}: {cost}{batch_cost}")


def _estimated(
    tenant: str, one: Estimate, prices: tuple[float | None, float | None], at_rate: int | None
) -> dict[str, Any]:
    money, batch_money = (one.money(price) for price in prices)
    seconds = None if at_rate is None else one.records / at_rate
    return {
        "tenant": tenant,
        "records": one.records,
        "reusable": one.reusable,
        "tokens": one.tokens,
        "cost": None if money is None else round(money, 9),
        "batch_cost": None if batch_money is None else round(batch_money, 9),
        "seconds": None if seconds is None else round(seconds, 1),
    }
