"""The command `memory snapshot`: vectors to the object store, so that a lost index costs no embedding again."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import typer

from core.errors import EngineError, Permanent
from deployments import options
from deployments.commands_run import listed, run_flow
from deployments.output import Exit, hint, report_json_error, say, show_json, show_table

if TYPE_CHECKING:
    from prefect import State

COLUMNS = ["tenant", "kept", "written", "unchanged", "dropped", "moving", "expired", "damaged", "skipped"]


def snapshot(tenants: options.SomeTenants = None, as_json: options.AsJson = False) -> None:
    """Write the vectors that changed since the last snapshot to the object store.

    A tenant whose snapshot is taken elsewhere, or that has no index, is skipped and shown so (exit code 3).

    \b
    Examples:
      memory snapshot
      memory snapshot --tenant clinic
    """

    def flow() -> State[Any]:
        from flows.snapshot import snapshot as chore

        return chore(tenants=None if tenants is None else list(tenants), return_state=True)

    state, result = run_flow(flow, tenants, shown=False)
    reports = listed(result, "reports")
    message = state.message or state.name or "ended"
    failed = not state.is_completed()
    if as_json:
        show_json({"message": message, "failed": failed, "tenants": [asdict(one) for one in reports]})
    else:
        rows = [
            (one.tenant, one.kept, one.rows, one.unchanged, one.dropped, one.moving, one.expired, len(one.damaged))
            for one in reports
        ]
        show_table(COLUMNS, [(*row, one.skipped or "") for row, one in zip(rows, reports, strict=True)])
        (hint if failed else say)(message)
    if failed:
        problem = result if isinstance(result, EngineError) else Permanent(message)
        if as_json:
            report_json_error({"kind": type(problem).__name__, "message": message})
        raise typer.Exit(Exit.FAILED)
    if any(one.skipped or one.damaged or not one.done for one in reports):
        raise typer.Exit(Exit.IN_PART)
