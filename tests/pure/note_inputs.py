"""Notes to be read and cut, and what every cut must hold."""

from __future__ import annotations

from pathlib import Path

from core.model.memory import Draft
from core.write.chunks import Chunk, ChunkLimits, chunks_of
from core.write.gate import is_blank
from core.write.markdown import Note, drafts_of, read_note
from core.write.outline import LineIndex, outline_of

LIMITS = ChunkLimits()
SMALL = ChunkLimits(tokens=20, overlap=5)
CHECKOUT = Path(__file__).parents[2]
PUBLIC_NOTES = CHECKOUT.parent / "shared" / "data" / "notes"
OWN_NOTES = CHECKOUT / "data" / "notes"


def chunked(text: str, limits: ChunkLimits = LIMITS) -> list[Chunk]:
    lines = LineIndex(text)
    return list(chunks_of(text, outline_of(text, lines), lines, limits))


def paths_of(text: str, limits: ChunkLimits = LIMITS) -> list[list[str]]:
    return [list(chunk.heading_path) for chunk in chunked(text, limits)]


def seen(text: str) -> str:
    return "".join(character for character in text if not is_blank(character))


def assert_held_in_order(text: str, chunks: list[Chunk]) -> None:
    """Every chunk stands in the text, each begins and ends after the one before, and nothing is lost."""
    begun, ended = -1, 0
    for chunk in chunks:
        end = chunk.start + len(chunk.text)
        assert text[chunk.start : end] == chunk.text
        assert chunk.start > begun
        assert end > ended
        assert is_blank(text[ended : chunk.start])
        begun, ended = chunk.start, end
    assert is_blank(text[ended:])


def note_of(root: Path, data: bytes | str, name: str = "note.md") -> Note:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return read_note(root, path)


def drafts(root: Path, data: bytes | str, name: str = "note.md", limits: ChunkLimits = LIMITS) -> list[Draft]:
    return drafts_of(note_of(root, data, name), limits)


def fence(lines: int, mark: str = "```") -> str:
    return f"{mark}sh\n" + "".join(f"# step {n:04}\n" for n in range(lines)) + mark
