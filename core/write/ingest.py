"""Files into memories: JSON Lines and folders of Markdown notes. The good ones go in, the others are listed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from core.errors import Refused
from core.model.memory import DEFAULT_SCOPE, Draft
from core.record import memories
from core.record.database import Database
from core.write.chunks import ChunkLimits
from core.write.gate import admit_tenant
from core.write.jsonl import read_lines
from core.write.markdown import Note, chunk_of_id, drafts_of, find_notes, read_note, source_path
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

    def notes(
        self, tenant: str, root: Path, scope: str = DEFAULT_SCOPE, only: Collection[Path] | None = None
    ) -> Iterator[Ingested]:
        """Import a folder of Markdown notes; gives the same running total after each note.

        A folder is known by its name and the scope: imported again from another place, it is the same.
        Chunks that did not change keep their ids and vectors; chunks that a note, or the folder, no longer
        has are deleted. A file that was moved keeps the times of its chunks. A note that cannot be read is
        listed and keeps what was imported of it before. `only`: of these notes alone, and nothing else is
        deleted. Raises Refused for what is no folder.
        """
        tenant = admit_tenant(tenant)
        total = Ingested()
        paths = [path for path in find_notes(root) if only is None or path in only]
        before = frozenset(self._before(tenant, root, scope))
        gone = [] if only is not None else _gone(root, sorted(before), paths, total)
        times = self._times(tenant, scope, gone)
        for path in paths:
            total.files += 1
            try:
                note = read_note(root, path)
                warnings = list(note.warnings)
                drafts = drafts_of(note, self._limits, scope, warnings)
                if note.path not in before:
                    drafts = [_as_moved(draft, times) for draft in drafts]
            except Refused as problem:
                total.add_problem(path.relative_to(root).as_posix(), problem.message)
            else:
                total.warnings.extend((note.path, warning) for warning in warnings)
                self._keep_note(tenant, note, scope, drafts, total)
            yield total
        for path_gone in gone:
            with self._database.tenant(tenant) as session:
                ids = memories.ids_of_source(session, tenant, scope, path_gone)
            total.removed += len(self._writer.delete_many(tenant, ids))
        yield total

    def _before(self, tenant: str, root: Path, scope: str) -> list[str]:
        with self._database.tenant(tenant) as session:
            return memories.sources(session, tenant, scope, source_path(root, root) + "/")

    def _times(self, tenant: str, scope: str, paths: Sequence[str]) -> dict[str, datetime]:
        """When the chunks of notes were created, by what their ids say of their headings and text."""
        times: dict[str, datetime] = {}
        for path in paths:
            with self._database.tenant(tenant) as session:
                found = memories.fetch(session, tenant, memories.ids_of_source(session, tenant, scope, path))
            times |= {chunk_of_id(one.id): one.created_at for one in found.values()}
        return times

    def _keep_note(self, tenant: str, note: Note, scope: str, drafts: list[Draft], total: Ingested) -> None:
        for written in self._writer.write_many(tenant, drafts):
            total.count(written)
            if written.kept is Kept.REFUSED:
                total.add_problem(note.path, written.reason or "refused")
        with self._database.tenant(tenant) as session:
            before = memories.ids_of_source(session, tenant, scope, note.path)
        gone = sorted(set(before) - {draft.id for draft in drafts if draft.id is not None})
        total.removed += len(self._writer.delete_many(tenant, gone))


def _gone(root: Path, before: Sequence[str], paths: Sequence[Path], total: Ingested) -> list[str]:
    """Paths of notes that were imported before and whose files the folder no longer has."""
    if before and not paths:
        # More likely a disk that is not there than a wish to forget all of it.
        total.warnings.append((root.name, "the folder holds no notes any more: what was imported of it stays"))
        return []
    there = {source_path(root, path) for path in paths}
    # A folder that cannot be listed is given by its own path: nobody knows what is in it.
    unseen = tuple(f"{source_path(root, path)}/" for path in paths if path.is_dir())
    return [path for path in before if path not in there and not path.startswith(unseen)]


def _as_moved(draft: Draft, times: Mapping[str, datetime]) -> Draft:
    """The draft, with the time of the same chunk of a file that is gone, unless the note names its own."""
    before = None if draft.id is None else times.get(chunk_of_id(draft.id))
    return draft if before is None or draft.created_at is not None else replace(draft, created_at=before)
