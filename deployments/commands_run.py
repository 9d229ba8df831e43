"""The commands `memory run …`: the flows, with progress."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from core.errors import EngineError, Permanent
from core.settings import load_settings
from deployments import options
from deployments.commands_batch import show_estimates
from deployments.output import Exit, hint, report_json_error, say, show_json, show_table
from deployments.prefect_settings import settle_prefect, start_prefect
from deployments.progress import backlog_bars, bar
from tasks.engine import shared_engine

if TYPE_CHECKING:
    from prefect import State

Rounds = Annotated[int, typer.Option("--rounds", min=1, max=1000, help="Look at what waits this often at the most.")]

COLUMNS = ("tenant", "records", "embedded", "waiting", "set aside", "seconds")


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowEnd:
    """How a flow ended: its message, a row a tenant, and the error if it failed."""

    message: str
    rows: list[dict[str, Any]] = field(default_factory=list)
    problem: EngineError | None = None

    @property
    def exit_code(self) -> Exit:
        """Failed, done in part (something is set aside or still waits), or done."""
        if self.problem is not None:
            return Exit.FAILED
        left = any(row["waiting"] or row["set_aside"] for row in self.rows)
        return Exit.IN_PART if left else Exit.DONE


DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what it would take and cost, in both lanes.")]


def run_embed(
    tenants: options.SomeTenants = None,
    lane: options.InLane = options.Lane.ONLINE,
    dry_run: DryRun = False,
    rounds: Rounds = 100,
    as_json: options.AsJson = False,
) -> None:
    """Bring the search index up to date with what was written.

    Can be stopped at any time and run again; exit code 3 says that something was set aside or still waits
    (`memory status` shows what).

    \b
    Examples:
      memory run embed
      memory run embed --tenant clinic --tenant studio
      memory run embed --dry-run
      memory run embed --lane batch
    """
    if dry_run:
        show_estimates(tenants, as_json=as_json)
        return
    _finish(embed_with_bars(tenants, rounds, lane=lane.value, shown=not as_json), as_json=as_json)


def run_batch_lane(tenants: options.SomeTenants = None, as_json: options.AsJson = False) -> None:
    """Look at every open batch job once and keep what has come; the next `memory run embed` brings it.

    Schedule it every few minutes while jobs are under way (`memory batch list`).

    \b
    Example:
      memory run batch-lane
    """

    def flow() -> State[Any]:
        from flows.batch_lane import batch_lane

        return batch_lane(tenants=None if tenants is None else list(tenants), return_state=True)

    state, result = run_flow(flow, tenants, shown=not as_json)
    rows = [asdict(one) for one in listed(result, "followed")]
    end = _end(state, result, rows)
    if as_json:
        show_json({"message": end.message, "failed": end.problem is not None, "jobs": rows})
    else:
        (hint if end.problem else say)(end.message)
    if end.problem is not None:
        raise typer.Exit(Exit.FAILED)


def run_relay(tenants: options.SomeTenants = None, as_json: options.AsJson = False) -> None:
    """Tell what happened to memories to each tenant's stream of events in Redis, at least once.

    Schedule it every few seconds or minutes; `memory status` shows what waits.

    \b
    Example:
      memory run relay
    """

    def flow() -> State[Any]:
        from flows.relay import relay

        return relay(tenants=None if tenants is None else list(tenants), return_state=True)

    state, result = run_flow(flow, tenants, shown=False)
    rows = [asdict(one) for one in listed(result, "reports")]
    end = _end(state, result, rows)
    if as_json:
        show_json({"message": end.message, "failed": end.problem is not None, "portions": rows})
    else:
        (hint if end.problem else say)(end.message)
    if end.problem is not None:
        raise typer.Exit(Exit.FAILED)
    if any(row["skipped"] for row in rows):
        raise typer.Exit(Exit.IN_PART)


def run_nightly(rounds: Rounds = 100, as_json: options.AsJson = False) -> None:
    """Run every chore in turn, for all tenants, and report.

    \b
    Example:
      memory run nightly --json > report.json
    """
    _finish(nightly_with_bars(rounds, shown=not as_json), as_json=as_json)


def embed_with_bars(
    tenants: Sequence[str] | None, rounds: int, *, shown: bool, lane: Literal["online", "batch"] = "online"
) -> FlowEnd:
    """The embed flow in this process; rows as the closing report has them."""

    def flow() -> State[Any]:
        from flows.embed import embed

        names = None if tenants is None else list(tenants)
        return embed(tenants=names, max_rounds=rounds, lane=lane, return_state=True)

    state, result = run_flow(flow, tenants, shown=shown)
    runs = {run.tenant: run for run in listed(result, "runs")}
    with shared_engine() as engine:
        backlog = engine.backlog(tenants)
    rows = [
        {
            "tenant": one.tenant,
            "records": one.records,
            "embedded": runs[one.tenant].report.embedded if one.tenant in runs else 0,
            "waiting": one.waiting,
            "set_aside": one.set_aside,
            "seconds": round(runs[one.tenant].seconds, 1) if one.tenant in runs else 0.0,
        }
        for one in backlog
    ]
    return _end(state, result, rows)


def nightly_with_bars(rounds: int, *, shown: bool) -> FlowEnd:
    """The nightly flow in this process."""

    def flow() -> State[Any]:
        from flows.nightly import nightly

        return nightly(max_rounds=rounds, return_state=True)

    state, result = run_flow(flow, None, shown=shown)
    rows = [{name: getattr(row, name) for name in row.__slots__} for row in listed(result, "rows")]
    return _end(state, result, rows)


def show_rows(rows: Sequence[Mapping[str, Any]]) -> None:
    """The table of a run."""
    show_table(COLUMNS, [[row[column.replace(" ", "_")] for column in COLUMNS] for row in rows])


def run_flow(
    flow: Callable[[], State[Any]], tenants: Sequence[str] | None, *, shown: bool
) -> tuple[State[Any], object]:
    """Run a flow with bars; its end state and what it ended with (a list, or an error)."""
    settle_prefect(load_settings().home)
    with shared_engine() as engine:
        with bar("starting Prefect (takes longer the first time)", None, shown=shown):
            start_prefect()
        with backlog_bars(engine, tenants, shown=shown):
            state = flow()
    return state, state.result(raise_on_failure=False)


def _end(state: State[Any], result: object, rows: list[dict[str, Any]]) -> FlowEnd:
    message = state.message or state.name or "ended"
    if state.is_completed():
        return FlowEnd(message=message, rows=rows)
    problem = result if isinstance(result, EngineError) else Permanent(message)
    return FlowEnd(message=message, rows=rows, problem=problem)


def listed(result: object, name: str) -> list[Any]:
    """The list a flow ended with, wherever it is: the result itself, or in the details of an error."""
    found = result.details.get(name, []) if isinstance(result, EngineError) else result
    return found if isinstance(found, list) else []


def _finish(end: FlowEnd, *, as_json: bool) -> None:
    if as_json:
        show_json({"message": end.message, "failed": end.problem is not None, "tenants": end.rows})
        if end.problem is not None:
            report_json_error({"kind": type(end.problem).__name__, "message": end.message})
    else:
        show_rows(end.rows)
        (hint if end.problem else say)(end.message)
        if end.exit_code is Exit.IN_PART:
            hint("Something waits or was set aside: `memory status` shows what.")
    if end.exit_code:
        raise typer.Exit(end.exit_code)
