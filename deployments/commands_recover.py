"""The command `memory recover`: a lost or damaged index from record and snapshot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from core.assembly import Engine, open_engine
from core.assembly.models import price_of
from core.batch.recover import Report, step, total
from core.errors import EngineError, Permanent
from core.model.use import money_of
from core.record.ledger import Replayed
from core.settings import load_settings
from deployments import options
from deployments.commands_run import embed_with_bars, listed, run_flow
from deployments.output import Exit, hint, report_json_error, say, show_json, show_table

if TYPE_CHECKING:
    from prefect import State

COLUMNS = ["tenant", "wanted", "right", "missing", "stale", "ahead", "orphans", "restored", "to embed", "alias was"]
MOST_PIECES = 100_000

DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done and what it would cost; do nothing.")]
AfterRestore = Annotated[
    bool,
    typer.Option(
        "--restored",
        help="PostgreSQL was restored from a backup: begin a new epoch and delete again what was deleted since, first.",
    ),
]
Rounds = Annotated[int, typer.Option("--rounds", min=1, max=1000, help="Rounds of embed afterwards, at the most.")]


def recover(
    tenants: options.SomeTenants = None,
    dry_run: DryRun = False,
    restored: AfterRestore = False,
    rounds: Rounds = 100,
    as_json: options.AsJson = False,
) -> None:
    """Rebuild a tenant's index from record and snapshot; only what no snapshot holds is embedded again.

    It works with the collection gone, the alias gone or wrong, and beside reads and writes. After PostgreSQL was
    restored from a backup, run it with --restored before anything else uses the engine (all tenants, unless some
    are named).

    \b
    Examples:
      memory recover --tenant clinic --dry-run
      memory recover --tenant clinic
      memory recover --restored
    """
    if tenants is None and not restored:
        raise typer.BadParameter("name a tenant with --tenant, or say --restored for all of them")
    if dry_run:
        with open_engine(load_settings()) as engine:
            names = list(tenants) if tenants is not None else [one.tenant for one in engine.backlog()]
            _show_plan(engine, names, as_json=as_json)
        return
    replayed = _replayed(as_json=as_json) if restored else []
    unreadable = [key for one in replayed for key in one.unreadable]
    state, result = run_flow(lambda: _flow(tenants), tenants, shown=False)
    reports = listed(result, "reports")
    left = any(one.figures.enqueued or one.figures.moved for one in reports)
    end = embed_with_bars([one.tenant for one in reports], rounds, shown=not as_json) if left else None
    message = state.message or state.name or "ended"
    if as_json:
        shown = {"message": message, "failed": not state.is_completed(), "tenants": [asdict(one) for one in reports]}
        show_json({**shown, "deleted_again": [asdict(one) for one in replayed], "embed": end and end.message})
    else:
        show_table(COLUMNS, [_row(one) for one in reports])
        say(message if end is None else f"{message}; embed: {end.message}")
    if not state.is_completed() or unreadable or (end is not None and end.problem is not None):
        if as_json:
            problem = result if isinstance(result, EngineError) else Permanent(message)
            report_json_error({"kind": type(problem).__name__, "message": message})
        raise typer.Exit(Exit.FAILED)
    if any(one.skipped or one.damaged for one in reports) or (end is not None and end.exit_code):
        raise typer.Exit(Exit.IN_PART)


def _flow(tenants: Sequence[str] | None) -> State[Any]:
    from flows.recover import recover as chore

    return chore(tenants=None if tenants is None else list(tenants), return_state=True)


def _replayed(*, as_json: bool) -> list[Replayed]:
    with open_engine(load_settings()) as engine:
        epoch, replayed = engine.safekeeping.ledger().restore()
    if not as_json:
        again = sum(one.done_again for one in replayed)
        say(f"Epoch {epoch}; {again} memories deleted again, of {len(replayed)} tenants.")
    for key in (key for one in replayed for key in one.unreadable):
        hint(f"A piece of the ledger of deletions cannot be read, and what it says is not known: {key}")
    return replayed


def _show_plan(engine: Engine, tenants: Sequence[str], *, as_json: bool) -> None:
    reports = [_planned(engine, tenant) for tenant in tenants]
    if as_json:
        show_json([{**asdict(one), "cost": _cost(one)} for one in reports])
        return
    rows = []
    for one in reports:
        cost = _cost(one)
        shown = "-" if cost is None else f"{cost:.4f}"
        *counts, was = _row(one)
        rows.append((*counts, one.figures.reusable, one.figures.tokens, shown, was))
    show_table([*COLUMNS[:-1], "of which kept", "tokens", "cost", COLUMNS[-1]], rows)
    say("Nothing was done. Tokens are estimated; cost is by today's list price, in US dollars.")


def _planned(engine: Engine, tenant: str) -> Report:
    work = engine.safekeeping.recover_work()
    reports = [step(work, tenant, dry=True)]
    while (cursor := reports[-1].cursor) is not None and len(reports) < MOST_PIECES:
        reports.append(step(work, tenant, cursor, dry=True))
    return total(tenant, reports)


def _cost(one: Report) -> float | None:
    return money_of(one.figures.tokens, price_of(one.provider, one.model))


def _row(one: Report) -> tuple[object, ...]:
    found = one.figures
    was = one.skipped or ("" if one.alias is None else one.alias or "nothing")
    counts = (found.wanted, found.right, found.missing, found.stale, found.ahead, found.orphans, found.restored)
    return (one.tenant, *counts, found.enqueued, was)
