"""The commands on generations, the indexes of a tenant: show, abort, drop, sweep, and roll back."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from core.assembly import open_engine
from core.errors import Conflict
from core.model.coverage import Coverage
from core.model.generation import GenerationState
from core.model.reindex import GenerationStatus
from core.settings import load_settings
from deployments import options
from deployments.output import Exit, hint, say, show_json, show_table

Number = Annotated[int, typer.Argument(metavar="NUMBER", min=1, help="As `memory generations` shows it.")]
Dropped = Annotated[bool, typer.Option("--dropped", help="Those that were dropped too.")]
Force = Annotated[bool, typer.Option("--force", help="Also when it is behind the record.")]
COLUMNS = (
    "tenant",
    "number",
    "state",
    "model",
    "width",
    "records",
    "points",
    "waiting",
    "set aside",
    "hours",
    "verdict",
)
# Asking an index opens it: of more generations than these it is shown how many there were when last counted.
COUNTED = 100


def show(
    context: typer.Context,
    tenants: options.SomeTenants = None,
    dropped: Dropped = False,
    as_json: options.AsJson = False,
) -> None:
    """Show the indexes of each tenant: state, model, records and points, what waits, and what the gate said.

    Records are those an index should hold; points are counted now, and unknown where the index is out of reach. Hours
    are since its state changed.

    \b
    Examples:
      memory generations
      memory generations --tenant clinic --json
      memory generations drop 1 --tenant clinic
    """
    if context.invoked_subcommand is not None:
        return
    with open_engine(load_settings()) as engine:
        found = engine.generations(tenants, dropped=dropped)
        covered = {(one.tenant, one.generation): one for one in engine.upkeep.coverage(tenants)}
        asked = [one.collection for one in found if one.state is not GenerationState.DROPPED]
        points = engine.safekeeping.points_in(asked[:COUNTED])
    shown = [_as_dict(one, covered.get((one.tenant, one.number)), points) for one in found]
    if as_json:
        show_json(shown)
        return
    show_table(COLUMNS, [_row(one, values, datetime.now(UTC)) for one, values in zip(found, shown, strict=True)])


def rollback(tenant: options.Tenant, force: Force = False, as_json: options.AsJson = False) -> None:
    """Make the index that served before the last reindex the live one again. Nothing written since is lost.

    \b
    Example:
      memory rollback --tenant clinic
    """
    with open_engine(load_settings()) as engine:
        number = engine.rollback(tenant, force=force)
    if as_json:
        show_json({"tenant": tenant, "live": number})
        return
    say(f"Generation {number} of {tenant} is live again; the other one is kept for a while.")


def abort(tenant: options.Tenant, number: Number, as_json: options.AsJson = False) -> None:
    """Give up an index that is being built; the live one is untouched."""
    with open_engine(load_settings()) as engine:
        if not engine.abort_generation(tenant, number):
            raise Conflict(f"generation {number} of {tenant} is not being built")
    _said(as_json, tenant, number, "given up")


def drop(tenant: options.Tenant, number: Number, as_json: options.AsJson = False) -> None:
    """Drop an index that retires or was given up, before its time. The live one is refused."""
    with open_engine(load_settings()) as engine:
        engine.drop_generation(tenant, number)
    _said(as_json, tenant, number, "dropped")


def sweep(as_json: options.AsJson = False) -> None:
    """Drop every index whose time has come, and give up those nobody goes on building."""
    with open_engine(load_settings()) as engine:
        left = dict(engine.sweep_generations())
    if as_json:
        show_json({"left": left})
    for collection, reason in left.items():
        hint(f"{collection} stays: {reason}")
    if left:
        raise typer.Exit(Exit.IN_PART)


def _said(as_json: bool, tenant: str, number: int, what: str) -> None:
    if as_json:
        show_json({"tenant": tenant, "generation": number, "outcome": what})
        return
    say(f"Generation {number} of {tenant} is {what}.")


def _row(one: GenerationStatus, values: Mapping[str, Any], now: datetime) -> tuple[object, ...]:
    state = f"{one.state} (running)" if one.running and one.ranges_left else str(one.state)
    hours = (now - one.changed_at).total_seconds() / 3600
    return (
        one.tenant,
        one.number,
        state,
        one.space.model,
        one.space.dimensions,
        values["records"],
        "unknown" if values["points"] is None else values["points"],
        one.waiting,
        one.set_aside,
        round(hours, 1),
        _verdict(one),
    )


def _verdict(one: GenerationStatus) -> str:
    if one.reason:
        return one.reason
    if one.verdict is None:
        return "-"
    return one.verdict.reasons or "passed"


def _as_dict(one: GenerationStatus, covered: Coverage | None, points: Mapping[str, int | None]) -> dict[str, Any]:
    counted = None if covered is None else covered.points
    return {
        "tenant": one.tenant,
        "number": one.number,
        "state": str(one.state),
        "provider": one.space.provider,
        "model": one.space.model,
        "dimensions": one.space.dimensions,
        "fingerprint": one.space.fingerprint,
        "records": None if covered is None else covered.records,
        "points": points.get(one.collection, counted),
        "waiting": one.waiting,
        "set_aside": one.set_aside,
        "fed": one.fed,
        "ranges_left": one.ranges_left,
        "running": one.running,
        "reason": one.reason,
        "registered_at": one.registered_at.isoformat(),
        "changed_at": one.changed_at.isoformat(),
        "retire_at": None if one.retire_at is None else one.retire_at.isoformat(),
        "verdict": None if one.verdict is None else one.verdict.as_dict(),
    }
