"""The commands `memory reconcile` and `memory drift`: whether every store agrees with the record, and mending it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from core.errors import EngineError, Permanent
from core.model.drift import Depth, StoreReport
from core.settings import Settings
from deployments import options
from deployments.commands_run import listed, run_flow
from deployments.output import Exit, hint, report_json_error, say, show_json, show_table
from deployments.staying import stay
from tasks.engine import shared_engine

if TYPE_CHECKING:
    from prefect import State

    from tasks.tending import Tended

COLUMNS = ["tenant", "store", "generation", "verdict", "kind", "found", "repaired", "left", "why"]

Full = Annotated[bool, typer.Option("--full", help="Compare every point and payload, not only what disagrees.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what is wrong; change nothing.")]
Watch = Annotated[bool, typer.Option("--watch", help="Go on: numbers every few seconds, digests now and then.")]
Limit = Annotated[int, typer.Option(min=1, max=1000, help="Reports of each tenant, at the most.")]


def reconcile(
    tenants: options.SomeTenants = None,
    full: Full = False,
    dry_run: DryRun = False,
    watch: Watch = False,
    as_json: options.AsJson = False,
) -> None:
    """Compare every store with the record, and bring what differs back in step.

    Numbers and digests of stretches of ids are compared; where they disagree, point by point. What is wrong is
    embedded or removed by the ordinary paths; an index that is gone is recovered from its snapshot. Exit code 3 says
    that something is left, or that a store could not be looked at.

    \b
    Examples:
      memory reconcile --dry-run
      memory reconcile --tenant clinic --full
      memory reconcile --watch
    """
    if watch:
        if full or dry_run:
            raise typer.BadParameter("--watch looks by numbers and digests, and mends")
        _watch(tenants)
        return
    depth = Depth.FULL if full else Depth.DIGESTS
    state, reports = _look(tenants, depth) if dry_run else _mend(tenants, depth)
    message = state.message or state.name or "ended"
    if as_json:
        show_json({"message": message, "failed": not state.is_completed(), "stores": [asdict(one) for one in reports]})
    else:
        show_table(COLUMNS, rows_of(reports))
        (say if state.is_completed() else hint)(message)
    if not state.is_completed():
        if as_json:
            problem = state.result(raise_on_failure=False)
            kind = type(problem if isinstance(problem, EngineError) else Permanent(message)).__name__
            report_json_error({"kind": kind, "message": message})
        raise typer.Exit(Exit.FAILED)
    if not all(one.whole for one in reports):
        raise typer.Exit(Exit.IN_PART)


def drift(tenants: options.SomeTenants = None, limit: Limit = 5, as_json: options.AsJson = False) -> None:
    """Show what the last looks at each tenant found, newest first, and what was done about it.

    \b
    Examples:
      memory drift
      memory drift --tenant clinic --limit 50 --json
    """
    with shared_engine() as engine:
        reports = engine.upkeep.reports(tenants, limit)
    if as_json:
        show_json([asdict(one) for one in reports])
        return
    rows = [(one.at, *row) for one in reports for row in rows_of([one])]
    show_table(["at (UTC)", *COLUMNS], rows)
    if not reports:
        say("Nothing was compared yet: `memory reconcile` does it.")


def rows_of(reports: Iterable[StoreReport]) -> list[tuple[object, ...]]:
    """A line for each kind found in each store, and one for each store in which nothing was."""
    rows: list[tuple[object, ...]] = []
    for one in reports:
        store = (one.tenant, one.store, one.generation or "", one.verdict.value)
        rows += [(*store, each.kind.value, each.found, each.repaired, each.left, each.why) for each in one.findings]
        if not one.findings:
            rows.append((*store, "", 0, 0, 0, one.alarm or one.note))
    return rows


def _look(tenants: Sequence[str] | None, depth: Depth) -> tuple[State[Any], list[StoreReport]]:
    def flow() -> State[Any]:
        from flows.reconcile import reconcile as chore

        return chore(tenants=None if tenants is None else list(tenants), depth=depth, dry=True, return_state=True)

    state, result = run_flow(flow, tenants, shown=False)
    return state, listed(result, "reports")


def _mend(tenants: Sequence[str] | None, depth: Depth) -> tuple[State[Any], list[StoreReport]]:
    def flow() -> State[Any]:
        from flows.mend import mend as chore

        return chore(tenants=None if tenants is None else list(tenants), depth=depth, return_state=True)

    state, result = run_flow(flow, tenants, shown=False)
    return state, listed(result, "reports")


def _watch(tenants: Sequence[str] | None) -> None:
    """The resident loop, for what differs alone."""

    def chores(settings: Settings) -> Sequence[Tended]:
        from tasks.tending import watching

        return watching(settings, tenants)

    stay(chores, "reconcile")
