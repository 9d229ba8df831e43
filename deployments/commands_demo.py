"""The command `memory demo`: sample data in, embedded, and asked a few questions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from core.assembly import Engine
from core.errors import Misconfigured
from deployments import options
from deployments.commands_import import Imported, imported_as_dict, run_import, summary
from deployments.commands_memories import answer_as_dict, show_answer
from deployments.commands_run import FlowEnd, nightly_with_bars, show_rows
from deployments.output import Exit, hint, say, show_json
from tasks.engine import shared_engine

DATA = Path(__file__).parents[1] / "data"
NOTES_TENANT = "lumen-studio"
NOTES_SCOPE = "notes"
ROUNDS = 100
ANSWERS = 3
QUESTIONS = (
    ("lumen-studio", "Two customers got photos in the wrong order in their download; what was behind it?"),
    ("harbor-clinic", "Why does our consent sheet separate fetching a child from fetching papers?"),
    ("wanderlight", "Quelle chambre faut-il pour l'adolescent des Delcourt ?"),
)


def demo(as_json: options.AsJson = False) -> None:
    """Import the sample data, embed it, and ask it three questions. Run again, it changes nothing.

    It uses the same stores as every other command; `MEMORY_HOME=/tmp/demo memory demo` keeps it apart.

    \b
    Example:
      memory demo
    """
    corpora = sorted((DATA / "corpora").glob("*.jsonl"))
    if not corpora:
        raise Misconfigured(f"the sample data is not in {DATA}: the demo runs from a checkout of the project")
    with shared_engine() as engine:
        imports = [_import(engine, path.stem, path, None, shown=not as_json) for path in corpora]
        imports.append(_import(engine, NOTES_TENANT, DATA / "notes", NOTES_SCOPE, shown=not as_json))
        end = _bring_up_to_date(engine, shown=not as_json)
        answers = [(tenant, text, engine.search(tenant, text, ANSWERS)) for tenant, text in QUESTIONS]
    changed = any(one.changed for one in imports)
    if as_json:
        asked = [{"tenant": tenant, "text": text, **answer_as_dict(answer)} for tenant, text, answer in answers]
        imported = [imported_as_dict(one) for one in imports]
        show_json({"changed": changed, "imports": imported, "tenants": end.rows, "searches": asked})
    else:
        show_rows(end.rows)
        if not changed and not any(row["embedded"] for row in end.rows):
            say(f"Nothing to do: all {sum(one.seen for one in imports)} memories are as they were.")
        for tenant, text, answer in answers:
            say(f'\nmemory search "{text}" --tenant {tenant}')
            show_answer(answer)
        if end.problem is not None:
            hint(end.message)
    if code := _exit_code(imports, end):
        raise typer.Exit(code)


def _import(engine: Engine, tenant: str, path: Path, scope: str | None, *, shown: bool) -> Imported:
    done = Imported(tenant=tenant)
    run_import(engine, path, done, scope, shown=shown)
    if shown:
        say(f"{tenant}: {path.name}: {summary(done)}")
    return done


def _bring_up_to_date(engine: Engine, *, shown: bool) -> FlowEnd:
    """The nightly flow, unless nothing waits: then it would only cost seconds."""
    backlog = engine.backlog()
    if any(one.waiting for one in backlog):
        return nightly_with_bars(ROUNDS, shown=shown)
    rows: list[dict[str, Any]] = [
        {
            "tenant": one.tenant,
            "records": one.records,
            "embedded": 0,
            "waiting": one.waiting,
            "set_aside": one.set_aside,
            "seconds": 0.0,
        }
        for one in backlog
    ]
    return FlowEnd(message="nothing waits", rows=rows)


def _exit_code(imports: list[Imported], end: FlowEnd) -> Exit:
    if end.exit_code is Exit.DONE and any(one.problem_count for one in imports):
        return Exit.IN_PART
    return end.exit_code
