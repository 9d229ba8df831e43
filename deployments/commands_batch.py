"""Commands on the providers' batch jobs: list, cancel; and what an embed run would cost in both lanes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

import typer

from core.assembly import open_engine
from core.assembly.models import price_of
from core.errors import Refused
from core.index.estimate import TenantEstimate
from core.model.batch import BatchJob
from core.settings import load_settings
from deployments import options
from deployments.output import say, show_json, show_table

Every = Annotated[bool, typer.Option("--all", help="Those that have ended, too.")]
COLUMNS = ("job", "tenant", "model", "state", "inputs", "done", "kept", "refused", "again", "deadline (UTC)", "note")
ESTIMATE_COLUMNS = (
    "tenant",
    "model",
    "entries",
    "in jobs",
    "reusable",
    "texts",
    "tokens",
    "cost",
    "cost in batch jobs",
)


def list_jobs(tenants: options.SomeTenants = None, every: Every = False, as_json: options.AsJson = False) -> None:
    """List batch jobs, newest first: those under way, or all of the last months.

    \b
    Examples:
      memory batch list
      memory batch list --all --tenant clinic
    """
    with open_engine(load_settings()) as engine:
        jobs = engine.batch_jobs(tenants, open_only=not every)
    if as_json:
        show_json([asdict(job) for job in jobs])
        return
    show_table(COLUMNS, [_row(job) for job in jobs])


def cancel_job(
    job: Annotated[str, typer.Argument(metavar="JOB", help="A job's id, or its beginning.")],
    as_json: options.AsJson = False,
) -> None:
    """Cancel a batch job: what waits for it is free at once, for `memory run embed` or the next job.

    \b
    Example:
      memory batch cancel 3f2a91c4
    """
    with open_engine(load_settings()) as engine:
        found = [one for one in engine.batch_jobs(open_only=True) if str(one.id).startswith(job.lower())]
        if len(found) != 1:
            raise Refused(f"{len(found)} open batch jobs begin with that: see `memory batch list`", where="JOB")
        done = engine.cancel_batch(found[0])
    if as_json:
        show_json({"job": str(found[0].id), "cancelled": done})
    else:
        say(f"cancelled {found[0].id}" if done else "it has ended already")


def show_estimates(tenants: Sequence[str] | None, *, as_json: bool) -> None:
    """What an embed run would take: per tenant and model, and what that costs in requests and in batch jobs."""
    with open_engine(load_settings()) as engine:
        shown = [(one, _cost(one, batch=False), _cost(one, batch=True)) for one in engine.estimates(tenants)]
    if as_json:
        show_json(
            [
                {
                    "tenant": one.tenant, "provider": one.space.provider, "model": one.space.model,
                    "generation": one.generation, "in_batch": one.in_batch, **asdict(one.estimate),
                    "cost": cost, "batch_cost": batch_cost,
                }
                for one, cost, batch_cost in shown
            ]
        )  # fmt: skip
        return
    rows = [
        (
            one.tenant,
            f"{one.space.provider} {one.space.model}",
            one.estimate.records,
            one.in_batch,
            one.estimate.reusable,
            one.estimate.texts,
            one.estimate.tokens,
            _money(cost),
            _money(batch_cost),
        )
        for one, cost, batch_cost in shown
    ]
    show_table(ESTIMATE_COLUMNS, rows)
    say("\nTokens are estimated, prices are list prices in US dollars; '-' where no price is known.")


def _row(job: BatchJob) -> tuple[object, ...]:
    figures = (job.inputs, job.done, job.kept, job.refused, job.again)
    return (str(job.id), job.tenant, job.model, job.state.value, *figures, job.deadline, job.note or "")


def _cost(one: TenantEstimate, *, batch: bool) -> float | None:
    return one.estimate.money(price_of(one.space.provider, one.space.model, batch=batch))


def _money(amount: float | None) -> str:
    return "-" if amount is None else f"{amount:.4f}"
