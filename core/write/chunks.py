"""Markdown text to chunks: one a section, long sections split, fenced code whole.

`semantic-text-splitter` decides where prose is cut; this module decides what it is given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from semantic_text_splitter import MarkdownSplitter, TextSplitter

from core.errors import Misconfigured
from core.write.outline import LineIndex, Outline, Section, Span
from core.write.text import is_blank

# How many times the size of a chunk a fence may take before it is split.
HARD_LIMIT = 4
# Headings of up to this part of a chunk are not cut off from the text under them.
_HEADINGS_PART = 4
# A run of text is handed to the splitter in windows of so many full chunks: its time on text without
# a break grows with the square of the text.
_WINDOW_CHUNKS = 8
_BYTES_A_TOKEN = 4


def quarter_of_bytes(text: str) -> int:
    """Tokens of a text, estimated as a quarter of its UTF-8 bytes, rounded up."""
    return -(-len(text.encode()) // _BYTES_A_TOKEN)


@dataclass(frozen=True, slots=True)
class ChunkLimits:
    """How long chunks are, in tokens as `estimate` counts them, and how much of the last one they repeat.

    Raises Misconfigured unless 0 ≤ overlap < tokens. A longer text must not have a smaller estimate.
    """

    tokens: int = 400
    overlap: int = 80
    estimate: Callable[[str], int] = quarter_of_bytes

    def __post_init__(self) -> None:
        """Refuse what would never come to an end, or say nothing."""
        if self.tokens < 1:
            raise Misconfigured(f"a chunk takes at least one token, not {self.tokens}")
        if not 0 <= self.overlap < self.tokens:
            raise Misconfigured(
                f"the overlap of chunks must be at least 0 and less than their size of {self.tokens} tokens, "
                f"not {self.overlap}"
            )

    @property
    def hard(self) -> int:
        """What no chunk goes over, in tokens: the room a single fence has."""
        return HARD_LIMIT * self.tokens


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a text, beginning at the offset `start`, with the headings it stands under.

    Its lines are counted from 1, both inclusive.
    """

    text: str
    start: int
    heading_path: tuple[str, ...]
    first_line: int
    last_line: int


def chunks_of(text: str, outline: Outline, lines: LineIndex, limits: ChunkLimits) -> Iterator[Chunk]:
    """The chunks of a text, in order. Together they hold every character of it that can be seen.

    Each chunk is of one section and within `limits.hard`; it is longer than `limits.tokens` only for a
    fence, or by the headings it begins with. White space at the ends of a chunk is left out. Takes
    time linear in the text.
    """
    packer = _Packer(text, limits)
    for section in outline.sections:
        for start, end in _seen_spans(text, packer.spans(section)):
            yield Chunk(text[start:end], start, section.path, lines.number(start), lines.number(end - 1))


def _seen_spans(text: str, spans: list[Span]) -> list[Span]:
    """The spans trimmed, without those that show nothing and those that stand in a neighbour whole."""
    kept: list[Span] = []
    for span in spans:
        start, end = _trimmed(text, *span)
        if is_blank(text[start:end]) or (kept and end <= kept[-1][1]):
            continue
        if kept and start <= kept[-1][0]:
            kept.pop()
        kept.append((start, end))
    return kept


def _trimmed(text: str, start: int, end: int) -> Span:
    """The span without white space at its ends; the indentation of its first line is kept."""
    piece = text[start:end]
    seen = start + len(piece) - len(piece.lstrip())
    line = text.rfind("\n", start, seen) + 1
    if line == 0:
        line = start if start == 0 or text[start - 1] == "\n" else seen
    return line, start + len(piece.rstrip())


@dataclass(frozen=True, slots=True)
class _Unit:
    """A stretch of a section that is either one fence or free of fences."""

    start: int
    end: int
    fence: bool


class _Packer:
    """Puts the units of a section, in order, into spans within the limits."""

    def __init__(self, text: str, limits: ChunkLimits) -> None:
        self._text = text
        self._limits = limits
        estimate, tokens, overlap = limits.estimate, limits.tokens, limits.overlap
        self._prose = MarkdownSplitter.from_callback(estimate, tokens, overlap=overlap, trim=False)
        self._code = TextSplitter.from_callback(estimate, tokens, overlap=overlap, trim=False)

    def spans(self, section: Section) -> list[Span]:
        """The spans of a section: each begins after the last one began, and no later than it ended."""
        if self._size(section.start, section.end) <= self._limits.tokens:
            return [(section.start, section.end)]
        spans: list[Span] = []
        before: _Unit | None = None
        for unit in _units(section):
            self._place(unit, before, spans)
            before = unit
        return self._with_headings(section, spans)

    def _with_headings(self, section: Section, spans: list[Span]) -> list[Span]:
        """The spans, the first two made one if the first is nothing but the section's headings."""
        headings = self._size(section.start, section.body)
        if len(spans) == 1 or not 0 < headings <= self._limits.tokens // _HEADINGS_PART:
            return spans
        if not is_blank(self._text[section.body : spans[0][1]]):
            return spans
        joined = (section.start, spans[1][1])
        return [joined, *spans[2:]] if self._size(*joined) <= self._limits.hard else spans

    def _place(self, unit: _Unit, before: _Unit | None, spans: list[Span]) -> None:
        if spans and self._size(spans[-1][0], unit.end) <= self._limits.tokens:
            spans[-1] = (spans[-1][0], unit.end)
        elif self._size(unit.start, unit.end) > (self._limits.hard if unit.fence else self._limits.tokens):
            spans.extend(self._split(unit))
        elif unit.fence and before is not None and not before.fence:
            start = self._lead(unit, max(before.start, spans[-1][0]))
            if start == spans[-1][0]:
                spans.pop()  # all of it leads to the fence
            spans.append((start, unit.end))
        else:
            spans.append((unit.start, unit.end))

    def _split(self, unit: _Unit) -> Iterator[Span]:
        splitter = self._code if unit.fence else self._prose
        window = _WINDOW_CHUNKS * _BYTES_A_TOKEN * self._limits.tokens
        at = unit.start
        while at < unit.end:
            until = min(at + window, unit.end)
            pieces = splitter.chunk_indices(self._text[at:until])
            spans = [(at + offset, at + offset + len(piece)) for offset, piece in pieces]
            if until == unit.end or spans[-1][0] == at:
                yield from spans
                at = until
            else:
                # The window cut the last piece short: the next window begins with it.
                yield from spans[:-1]
                at = spans[-1][0]

    def _lead(self, fence: _Unit, floor: int) -> int:
        """Where a fence's chunk begins: as many of the lines before it as an overlap has room for."""
        start = fence.start
        while start > floor:
            earlier = max(self._text.rfind("\n", floor, start - 1) + 1, floor)
            if self._size(earlier, fence.start) > self._limits.overlap:
                break
            start = earlier
        return start if self._size(start, fence.end) <= self._limits.hard else fence.start

    def _size(self, start: int, end: int) -> int:
        return self._limits.estimate(self._text[start:end])


def _units(section: Section) -> Iterator[_Unit]:
    at = section.start
    for start, end in section.fences:
        if start > at:
            yield _Unit(at, start, fence=False)
        yield _Unit(start, end, fence=True)
        at = end
    if at < section.end:
        yield _Unit(at, section.end, fence=False)
