"""The command `memory import`: files and folders into memories."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer

from core.assembly import Engine, open_engine
from core.errors import Refused
from core.model.memory import DEFAULT_SCOPE
from core.settings import load_settings
from core.write.ingest import Ingested
from deployments import options
from deployments.output import Exit, hint, say, show_json
from deployments.progress import bar

LINES = ".jsonl"
NOTES = (".md", ".markdown")
PROBLEMS_SHOWN = 20
READ_BYTES = 1 << 20


@dataclass(slots=True, kw_only=True)
class Imported:
    """What one or several imports did, taken together."""

    tenant: str
    files: int = 0
    items: dict[str, int] = field(default_factory=dict)
    cleaned: int = 0
    removed: int = 0
    changed: bool = False
    warnings: list[tuple[str, str]] = field(default_factory=list)
    problems: list[tuple[str, str]] = field(default_factory=list)
    problem_count: int = 0

    @property
    def seen(self) -> int:
        """Items read, whatever became of them."""
        return sum(self.items.values())

    def add(self, one: Ingested) -> None:
        """Take in the total of one import."""
        for kept, number in one.items.items():
            self.items[str(kept)] = self.items.get(str(kept), 0) + number
        self.files += one.files
        self.cleaned += one.cleaned
        self.removed += one.removed
        self.changed = self.changed or one.changed
        self.warnings += one.warnings
        self.problems += one.problems
        self.problem_count += one.problem_count


def import_path(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="A .jsonl file, or a folder of Markdown or .jsonl.")],
    tenant: options.Tenant,
    scope: Annotated[
        str | None, typer.Option(metavar="NAME", help="Scope of notes; lines of .jsonl name their own.")
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Import a file of JSON Lines or a folder of Markdown notes.

    A line is an object with 'content' and, if you like, id, title, role, session, tags, created_at and so
    on. Items with an id (notes always have one) can be imported again: what did not change stays as it is.
    Bad items are listed and the rest goes in; the exit code is then 3.

    \b
    Examples:
      memory import talks.jsonl --tenant clinic
      memory import ~/notes --tenant studio --scope notes
    """
    sources = sources_of(path, scope)
    with open_engine(load_settings()) as engine:
        done = Imported(tenant=tenant)
        for source in sources:
            run_import(engine, source, done, scope, shown=not as_json)
    if as_json:
        show_json(imported_as_dict(done))
    else:
        _show(done, path)
    if done.problem_count:
        raise typer.Exit(Exit.IN_PART)


def sources_of(path: Path, scope: str | None) -> list[Path]:
    """What to import: the file itself, or a folder's .jsonl files and, for Markdown in it, the folder."""
    if path.suffix.lower() == LINES and not path.is_dir():
        if scope is not None:
            raise Refused("--scope is for notes: the lines of a .jsonl file name their own scope")
        return [path]
    if not path.is_dir():
        what = "is neither a .jsonl file nor a folder" if path.exists() else "is not there"
        raise Refused(f"{path} {what}")
    lines = sorted(file for file in path.iterdir() if file.suffix.lower() == LINES and file.is_file())
    notes = [path] if any(file.suffix.lower() in NOTES for file in path.rglob("*")) else []
    if not lines and not notes:
        raise Refused(f"{path} holds neither Markdown notes nor .jsonl files")
    return [*lines, *notes]


def run_import(engine: Engine, source: Path, done: Imported, scope: str | None, *, shown: bool) -> None:
    """Import one source with a bar, adding to `done`."""
    notes = source.is_dir()
    steps: Iterator[Ingested] = (
        engine.import_notes(done.tenant, source, scope or DEFAULT_SCOPE)
        if notes
        else engine.import_lines(done.tenant, source)
    )
    size = _count_notes(source) if notes else _count_lines(source)
    last = Ingested()
    with bar(f"import {source.name}", size, shown=shown) as advance:
        for number, last in enumerate(steps, start=1):
            if notes or number % 500 == 0:
                advance(last.files if notes else number)
    done.add(last)


def imported_as_dict(done: Imported) -> dict[str, object]:
    """An import for `--json`."""
    return {
        "tenant": done.tenant,
        "changed": done.changed,
        "files": done.files,
        "items": done.items,
        "cleaned": done.cleaned,
        "removed": done.removed,
        "problem_count": done.problem_count,
        "problems": [{"place": place, "reason": reason} for place, reason in done.problems],
        "warnings": [{"place": place, "reason": reason} for place, reason in done.warnings],
    }


def summary(done: Imported) -> str:
    """What became of the items, in words."""
    parts = [f"{number:,} {kept}" for kept, number in sorted(done.items.items())]
    parts += [f"{done.removed:,} removed"] if done.removed else []
    return ", ".join(parts) or "nothing in it"


def _show(done: Imported, path: Path) -> None:
    say(f"{path.name}: {summary(done)}")
    if done.cleaned:
        say(f"{done.cleaned:,} held characters no store can keep; those were removed.")
    for place, reason in done.problems[:PROBLEMS_SHOWN]:
        hint(f"{place}: {reason}")
    if done.problem_count > PROBLEMS_SHOWN:
        hint(f"… and {done.problem_count - PROBLEMS_SHOWN:,} more problems; --json lists up to 1,000 a file.")
    for place, warning in done.warnings[:PROBLEMS_SHOWN]:
        hint(f"{place}: {warning}")
    if done.changed:
        say("They are found by search once `memory run embed` has run.")
    elif not done.problem_count:
        say("Nothing to do: all of them are as they were.")


def _count_lines(path: Path) -> int | None:
    """Lines of a file, for its bar; None when it cannot be read (the import says why)."""
    try:
        with path.open("rb") as file:
            return sum(block.count(b"\n") for block in iter(lambda: file.read(READ_BYTES), b""))
    except OSError:
        return None


def _count_notes(root: Path) -> int:
    return sum(1 for path in root.rglob("*") if path.suffix.lower() in NOTES)
