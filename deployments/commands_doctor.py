"""The command that looks every store over."""

from __future__ import annotations

from dataclasses import asdict

import typer

from core.doctor import examine
from core.model.finding import Finding, Verdict
from core.settings import load_settings
from deployments import options
from deployments.output import Exit, hint, say, show_json, show_table

COLUMNS = ["store", "check", "verdict", "found", "what to do"]


def doctor(as_json: options.AsJson = False) -> None:
    """Check each store in turn: reachable, version, rights, clock, and settings that contradict each other.

    What is tried is undone. Exit code 1 says that something has to be mended before the engine works;
    warnings are exit code 0.

    \b
    Example:
      memory doctor
    """
    found = list(examine(load_settings()))
    if as_json:
        show_json([asdict(one) for one in found])
    else:
        show_table(COLUMNS, [_row(one) for one in found])
        _closing(found)
    if any(one.verdict is Verdict.PROBLEM for one in found):
        raise typer.Exit(Exit.FAILED)


def _row(one: Finding) -> tuple[str, ...]:
    return one.store, one.check, str(one.verdict), one.detail, one.advice


def _closing(found: list[Finding]) -> None:
    counted = {verdict: sum(one.verdict is verdict for one in found) for verdict in Verdict}
    if not counted[Verdict.PROBLEM] and not counted[Verdict.WARNING]:
        say("\nAll is well.")
    else:
        hint(f"{counted[Verdict.PROBLEM]} problems, {counted[Verdict.WARNING]} warnings")
