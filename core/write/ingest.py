"""Files into memories: JSON Lines and folders of Markdown notes. The good ones go in, the others are listed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from core.errors import Refused
from core.model.memory import DEFAULT_SCOPE, Draft
from core.record import memories
from core.record.database import Database
from core.write.chunks import ChunkLimits
from core.write.gate import admit_tenant
from core.write.jsonl import read_lines
from core.write.markdown import Note, drafts_of, find_notes, read_note
from core.write.writer import Kept, Writer, Written

PROBLEMS_SHOWN = 1000


@dataclass(slots=True, kw_only=True)
class Ingested:
    """What an import did: items by what became of them, and problems as (place, reason), the first 1,000 of them."""

    items: Counter[str] = field(default_factory=Counter)
    cleaned: int = 0
    removed: int = 0
    files: int = 0
    warnings: list[tuple[str, str]] = field(default_factory=list)
    problems: list[tuple[str, str]] = field(default_factory=list)
    problem_count: int = 0

    @property
    def changed(self) -> bool:
        """Did the record change at all?"""
        return bool(self.items[Kept.STORED] or self.removed)

    def count(self, written: Written) -> None:
        """Take in what became of one item."""
        self.items[written.kept] += 1
        self.cleaned += bool(written.cleaned)

    def add_problem(self, place: str, reason: str) -> None:
        """List something that could not be imported."""
        self.problem_count += 1
        if len(self.problems) < PROBLEMS_SHOWN:
            self.problems.append((place, reason))


class Ingest:
    """Imports files for a tenant through the writer."""

    def __init__(self, database: Database, writer: Writer, limits: ChunkLimits) -> None:
        self._database = database
        self._writer = writer
        self._limits = limits

    def lines(self, tenant: str, path: Path) -> Iterator[Ingested]:
        """Import a JSON Lines file, streaming; gives the same running total after each committed piece.

        Lines that cannot be read are listed by number; the rest goes in. Raises Refused when the file
        cannot be opened.
        """
        total = Ingested(files=1)
        numbers: list[int] = []

        def readable() -> Iterator[Draft]:
            for line in read_lines(path):
                if line.draft is None:
                    total.add_problem(f"{path.name}:{line.number}", line.problem or "cannot be read")
                else:
                    numbers.append(line.number)
                    yield line.draft

        for written in self._writer.write_many(tenant, readable()):
            total.count(written)
            if written.kept in (Kept.REFUSED, Kept.SKIPPED):
                total.add_problem(f"{path.name}:{numbers[written.number]}", f"{written.kept}: {written.reason}")
            yield total
        yield total

    def notes(self, tenant: str, root: Path, scope: str = DEFAULT_SCOPE) -> Iterator[Ingested]:
        """Import a folder of Markdown notes; gives the same running total after each note.

        A folder is known by its name and the scope: imported again from another place, it is the same.
        Chunks that did not change keep their ids and vectors, chunks a note no longer has are
        deleted. A note that cannot be read is listed and keeps what was imported of it before.
        """
        tenant = admit_tenant(tenant)
        total = Ingested()
        for path in find_notes(root):
            total.files += 1
            try:
                note = read_note(root, path)
                drafts = drafts_of(note, self._limits, scope)
            except Refused as problem:
                total.add_problem(path.relative_to(root).as_posix(), problem.message)
            else:
                self._keep_note(tenant, note, scope, drafts, total)
            yield total

    def _keep_note(self, tenant: str, note: Note, scope: str, drafts: list[Draft], total: Ingested) -> None:
        total.warnings.extend((note.path, warning) for warning in note.warnings)
        for written in self._writer.write_many(tenant, drafts):
            total.count(written)
            if written.kept is Kept.REFUSED:
                total.add_problem(note.path, written.reason or "refused")
        with self._database.tenant(tenant) as session:
            before = memories.ids_of_source(session, tenant, scope, note.path)
        gone = sorted(set(before) - {draft.id for draft in drafts if draft.id is not None})
        total.removed += len(self._writer.delete_many(tenant, gone))
