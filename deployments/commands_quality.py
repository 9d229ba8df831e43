"""The commands of the quality gates: judge samples now, and read what was found."""

from __future__ import annotations

import webbrowser
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from core.assembly.stores import open_data_docs
from core.errors import NotFound
from core.settings import load_settings
from deployments import options
from deployments.commands_run import listed, run_flow
from deployments.output import Exit, hint, say, show_json, show_table

if TYPE_CHECKING:
    from prefect import State

    from core.batch.quality import Report

Open = Annotated[bool, typer.Option("--open", help="Open it in the browser too.")]
COLUMNS = ["suite", "passed", "rows", "what failed"]


def run_quality(tenants: options.SomeTenants = None, as_json: options.AsJson = False) -> None:
    """Judge samples of what was imported, embedded and archived; nothing is changed.

    Exit code 1 says that a suite failed. `memory docs` has the pages with every check.

    \b
    Examples:
      memory run quality
      memory run quality --tenant clinic --json
    """

    def flow() -> State[Any]:
        from flows.quality import quality

        return quality(tenants=None if tenants is None else list(tenants), return_state=True)

    state, result = run_flow(flow, tenants, shown=not as_json)
    reports: list[Report] = listed(result, "reports")
    message = state.message or state.name or "ended"
    if as_json:
        failed = not state.is_completed()
        show_json({"message": message, "failed": failed, "reports": [asdict(one) for one in reports]})
    else:
        show_table(COLUMNS, [row for one in reports for row in _rows(one)])
        (say if state.is_completed() else hint)(message)
    if not state.is_completed():
        raise typer.Exit(Exit.FAILED)


def docs(open_it: Open = False, as_json: options.AsJson = False) -> None:
    """Show where the pages of the last quality run are: every check with its figures.

    \b
    Examples:
      memory docs
      memory docs --open
    """
    page = open_data_docs(load_settings()).newest()
    if page is None:
        raise NotFound("there are no data docs yet: `memory run quality`")
    if as_json:
        show_json({"page": str(page.resolve())})
    else:
        say(str(page.resolve()))
    if open_it and not webbrowser.open(page.resolve().as_uri()):
        hint("There is no browser here to open it.")


def _rows(report: Report) -> list[tuple[str, str, int, str]]:
    judged = [(str(one.suite), "yes" if one.passed else "NO", one.rows, one.reasons) for one in report.verdicts]
    return judged + [(str(one), "nothing to check", 0, "") for one in report.nothing]
