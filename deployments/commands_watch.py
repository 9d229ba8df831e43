"""The command `memory watch`: a folder of Markdown notes is kept in step while it is worked on."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer
import watchfiles

from core.assembly import Engine, open_engine
from core.errors import Refused, Transient
from core.model.memory import DEFAULT_SCOPE
from core.settings import load_settings
from deployments import options
from deployments.commands_import import NOTES, Imported, imported_as_dict, summary
from deployments.output import hint, say, show_json_line

# Changes are taken together until nothing happens for QUIET, at most for LONGEST; a file that is missing is looked
# for again after GRACE, for editors put a new file in the place of the old one.
QUIET_MS, LONGEST_MS, WAKE_MS = 400, 3000, 1000
GRACE_SECONDS = 0.7
# Some file systems lose events: everything is looked at this often too.
EVERYTHING_SECONDS = 600.0


@dataclass(slots=True)
class Due:
    """What of a folder has to be imported: all of it, or these notes. `folders` are those below it, as far as known."""

    root: Path
    everything: bool = True
    paths: set[Path] = field(default_factory=set)
    folders: set[Path] = field(default_factory=set)

    def __bool__(self) -> bool:
        """Whether anything is due."""
        return self.everything or bool(self.paths)

    def add(self, changed: Iterable[Path]) -> None:
        """Take in what changed. Notes and folders that are gone or new take a look at everything."""
        visible = {path for path in changed if not hidden(path, self.root)}
        notes = {path for path in visible if path.suffix.lower() in NOTES}
        new = {path for path in visible if path.is_dir()} - self.folders
        gone = {path for path in visible & (notes | self.folders) if not path.exists()}
        if gone:
            time.sleep(GRACE_SECONDS)
            gone = {path for path in gone if not path.exists()}
        self.everything = self.everything or bool(new) or bool(gone)
        self.folders = (self.folders | new) - gone
        self.paths |= notes - gone

    def done(self) -> None:
        """All of it has been imported."""
        self.everything, self.paths = False, set()


def watch(
    path: Annotated[Path, typer.Argument(metavar="DIR", help="A folder of Markdown notes.")],
    tenant: options.Tenant,
    scope: Annotated[str | None, typer.Option(metavar="NAME", help="Scope of the notes.")] = None,
    as_json: options.AsJson = False,
) -> None:
    """Keep a folder of Markdown notes in step: import it, then whatever changes in it, until Ctrl-C.

    Notes that change are imported a moment after the last change; those that are removed are deleted; those
    that are moved keep their times and vectors. With --json each import is one line. They are found by their
    words at once, and by their meaning once `memory run embed` has run.

    \b
    Example:
      memory watch ~/notes --tenant studio --scope notes
    """
    root = path.resolve()
    if not root.is_dir():
        raise Refused(f"{path} is not a folder")
    with open_engine(load_settings()) as engine:
        for done in watched(engine, root, tenant, scope or DEFAULT_SCOPE):
            show(done, root, as_json=as_json)


def watched(engine: Engine, root: Path, tenant: str, scope: str) -> Iterator[Imported]:
    """What each import did, as changes come; ends with KeyboardInterrupt. A store that is away is tried again."""
    due, looked, told = Due(root, folders=set(folders_below(root))), 0.0, False
    for changes in watchfiles.watch(
        root, watch_filter=None, debounce=LONGEST_MS, step=QUIET_MS, rust_timeout=WAKE_MS, yield_on_timeout=True
    ):
        due.add(Path(changed) for _, changed in changes)
        if time.monotonic() - looked > EVERYTHING_SECONDS:
            due.everything = True
        if not due:
            continue
        try:
            done = imported(engine, tenant, scope, due)
        except Transient as problem:
            if not told:
                hint(f"{problem.message}. It is tried again until it works; nothing is lost.")
            told = True
            continue
        told = False
        looked = time.monotonic() if due.everything else looked
        due.done()
        yield done


def imported(engine: Engine, tenant: str, scope: str, due: Due) -> Imported:
    """Import what is due."""
    done = Imported(tenant=tenant)
    *_, total = engine.import_notes(tenant, due.root, scope, None if due.everything else frozenset(due.paths))
    done.add(total)
    return done


def folders_below(root: Path) -> Iterator[Path]:
    """Folders below a root that are not hidden."""
    for at, inside, _ in os.walk(root):
        inside[:] = [name for name in inside if not name.startswith(".")]
        yield from (Path(at, name) for name in inside)


def hidden(path: Path, root: Path) -> bool:
    """Whether a file is of no interest: hidden, or in a hidden folder below the root."""
    return any(part.startswith(".") for part in path.relative_to(root).parts) if path.is_relative_to(root) else True


def show(done: Imported, root: Path, *, as_json: bool) -> None:
    """Say what an import did, if anything."""
    if as_json:
        show_json_line(imported_as_dict(done))
        return
    if done.changed:
        say(f"{root.name}: {summary(done)}")
    for place, reason in [*done.problems, *done.warnings]:
        hint(f"{place}: {reason}")
