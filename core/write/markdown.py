"""Markdown notes to drafts: which files are notes, what one says, and the chunks it becomes."""

from __future__ import annotations

import codecs
import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import Any

from core.errors import Refused
from core.model.memory import DEFAULT_SCOPE, Draft, Source
from core.write.chunks import Chunk, ChunkLimits, chunks_of
from core.write.front_matter import part
from core.write.note_relations import Said, relations_of
from core.write.outline import LineIndex, outline_of
from core.write.text import clean_text, has_controls, is_blank

SUFFIXES = frozenset({".md", ".markdown"})
NOTE_TYPE = "note"
MAX_NOTE_BYTES = 16 * 1024 * 1024
# Leaves an id (512 bytes) room for what stands around the path.
_MAX_ID_PATH_BYTES = 400
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A Markdown file as it was read, its lines ending in `\\n` whatever they ended in.

    `path` is relative to the folder of notes, with `/`, and `key` is what ids say in its place. `title`,
    `tags`, `created_at` and `front_matter` are what the front matter says; `body` is the rest, which
    begins on line `first_line` of the file, and the first `unread_lines` of it are a block of front
    matter that could not be read. `content_hash` is over the whole text: equal for the same text with
    other line ends.
    """

    path: str
    key: str
    body: str
    first_line: int
    unread_lines: int
    content_hash: str
    title: str | None
    tags: tuple[str, ...]
    created_at: datetime | None
    front_matter: Mapping[str, Any]
    warnings: tuple[str, ...]


def find_notes(root: Path) -> Iterator[Path]:
    """The Markdown files below a folder, sorted by path; hidden files and folders are passed over.

    Links to folders are not followed, links to files only within `root`. A folder that cannot be
    listed is given itself: reading it says why. Raises Refused when `root` is not a folder.
    """
    try:
        is_folder = root.is_dir()
    except OSError:
        is_folder = False
    if not is_folder:
        raise Refused(f"{root} is not a folder that can be listed", where=clean_text(str(root)))
    yield from _found(root, root.resolve())


def _found(folder: Path, home: Path) -> Iterator[Path]:
    try:
        with os.scandir(folder) as entries:
            inside = sorted(entries, key=lambda entry: entry.name)
    except OSError:
        yield folder
        return
    for entry in inside:
        path = folder / entry.name
        if entry.name.startswith("."):
            continue
        if entry.is_dir(follow_symlinks=False):
            yield from _found(path, home)
        elif path.suffix.lower() in SUFFIXES and _is_note(entry, path, home):
            yield path


def _is_note(entry: os.DirEntry[str], path: Path, home: Path) -> bool:
    try:
        return entry.is_file() and _is_within(path, home)
    except OSError:
        return True  # a link in a circle: reading it says so


def _is_within(path: Path, home: Path) -> bool:
    return path.resolve().is_relative_to(home)


def read_note(root: Path, path: Path) -> Note:
    """The note a file holds.

    Raises Refused, `where` being the path relative to `root`, for a file that cannot be read, lies
    outside of `root`, is too big, is not UTF-8, or holds nothing that can be seen (`reason` "empty").
    """
    key = _relative(root, path)
    where = clean_text(key)
    raw = _text_of(_bytes_of(path, where), where)
    text = clean_text(raw)
    parted = part(text)
    if is_blank(parted.body):
        raise Refused("the file is empty", where=where, reason="empty")
    cleaned = () if text == raw else ("U+0000 was removed",)
    named = _named(root, key)
    return Note(
        path=clean_text(named),
        key=_key_of(named),
        body=parted.body,
        first_line=parted.first_line,
        unread_lines=parted.unread_lines,
        content_hash=hashlib.blake2b(text.encode(), digest_size=16).hexdigest(),
        title=parted.front.title,
        tags=parted.front.tags,
        created_at=parted.front.created_at,
        front_matter=parted.front.rest,
        warnings=cleaned + parted.front.warnings,
    )


def source_path(root: Path, path: Path) -> str:
    """What memories say of where they are from: the path with the name of the folder of notes; `root`: that name."""
    key = "" if path == root else path.relative_to(root).as_posix()
    return clean_text(_named(root, key)).removesuffix("/")


def _named(root: Path, key: str) -> str:
    # With the folder's name: two workspaces may both have a README.md.
    return f"{root.resolve().name}/{key}"


def _relative(root: Path, path: Path) -> str:
    if not path.is_relative_to(root):
        raise Refused(f"{path} is not below {root}", where=clean_text(str(path)))
    relative = path.relative_to(root).as_posix()
    try:
        outside = not _is_within(path, root.resolve())
    except (OSError, RuntimeError, ValueError) as error:
        # Links in a circle are one of the first two, by Python's version; a zero in the path is the last.
        raise Refused("the file is a link that leads nowhere", where=clean_text(relative)) from error
    if outside:
        raise Refused("the file lies outside of the folder of notes", where=clean_text(relative))
    return relative


def _bytes_of(path: Path, where: str) -> bytes:
    try:
        if path.is_dir():
            raise Refused("the folder cannot be listed", where=where)
        with path.open("rb") as file:
            data = file.read(MAX_NOTE_BYTES + 1)
    except OSError as error:
        raise Refused(f"the file cannot be read: {error.strerror}", where=where) from error
    if len(data) > MAX_NOTE_BYTES:
        raise Refused(f"the file is bigger than {MAX_NOTE_BYTES:,} bytes", where=where)
    return data


def _text_of(data: bytes, where: str) -> str:
    """The text of a file, its byte order mark dropped, its lines ending in `\\n`."""
    # Without a mark, UTF-16 of Latin letters is valid UTF-8: every second byte is zero.
    if data.startswith(_UTF16) or data.count(0) * 4 > len(data):
        raise Refused("the file is UTF-16 or binary, not UTF-8", where=where)
    try:
        text = data.removeprefix(codecs.BOM_UTF8).decode()
    except UnicodeDecodeError as error:
        raise Refused(f"the file is not valid UTF-8 at byte {error.start + 1}", where=where) from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def drafts_of(
    note: Note, limits: ChunkLimits, scope: str = DEFAULT_SCOPE, warnings: list[str] | None = None
) -> list[Draft]:
    """The chunks of a note as drafts of a scope, in order, each fit for the gate, with the relations each supports.

    What of these had to be left out is added to `warnings`.

    The id of a chunk depends on the scope, the note's path, the chunk's headings and its text alone, so
    that a chunk that only moved keeps its id, and with it its vector.
    """
    lines = LineIndex(note.body)
    outline = outline_of(note.body, lines, note.unread_lines)
    title = note.title or outline.first_heading or PurePosixPath(note.path).stem
    ids = _Ids(note.key, scope)
    chunks = list(chunks_of(note.body, outline, lines, limits))
    said = Said(path=note.path, title=note.title, tags=note.tags, front_matter=note.front_matter)
    related = relations_of(said, outline.links, chunks, [] if warnings is None else warnings)
    return [
        replace(_draft(note, chunk, title, ids.of(chunk), position), scope=scope, relations=relations)
        for position, (chunk, relations) in enumerate(zip(chunks, related, strict=True))
    ]


def _draft(note: Note, chunk: Chunk, title: str, memory_id: str, position: int) -> Draft:
    metadata: dict[str, Any] = {"heading_path": list(chunk.heading_path)}
    if note.front_matter:
        metadata["front_matter"] = dict(note.front_matter)
    before = note.first_line - 1
    return Draft(
        content=chunk.text,
        id=memory_id,
        type=NOTE_TYPE,
        title=title,
        tags=note.tags,
        metadata=metadata,
        position=position,
        source=Source(
            path=note.path,
            first_line=before + chunk.first_line,
            last_line=before + chunk.last_line,
        ),
        created_at=note.created_at,
    )


class _Ids:
    """Ids of the chunks of one note: its key, a hash of scope, headings and text, and a count of equal chunks."""

    def __init__(self, key: str, scope: str) -> None:
        self._note = f"note:{key}"
        self._scope = scope
        self._seen: Counter[str] = Counter()

    def of(self, chunk: Chunk) -> str:
        said = json.dumps([self._scope, chunk.heading_path, chunk.text]).encode()
        digest = hashlib.blake2b(said, digest_size=8).hexdigest()
        self._seen[digest] += 1
        return f"{self._note}#{digest}-{self._seen[digest]}"


def chunk_of_id(memory_id: str) -> str:
    """What the id of a chunk says of its scope, headings and text: the same in whichever file it stands."""
    return memory_id.rpartition("#")[2]


def _key_of(path: str) -> str:
    """The path itself, or a hash of it if an id cannot hold it: no path of a note looks like such a hash."""
    plain = clean_text(path) == path and not has_controls(path)
    if plain and len(path.encode()) <= _MAX_ID_PATH_BYTES:
        return path
    return hashlib.blake2b(os.fsencode(path), digest_size=16).hexdigest()
