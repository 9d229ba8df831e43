"""The outline of a Markdown text: its sections by heading, and its fenced code."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, zip_longest

from markdown_it import MarkdownIt
from markdown_it.token import Token

from core.write.text import is_blank

MAX_HEADING_CHARACTERS = 200

# Blocks are all that is needed of a whole text; what is inside them is parsed for headings alone.
_BLOCKS = MarkdownIt("commonmark").disable("inline")
_INLINE = MarkdownIt("commonmark")

Span = tuple[int, int]


class LineIndex:
    """Where the lines of a text begin. Only `\\n` ends a line."""

    def __init__(self, text: str) -> None:
        self._starts = [0]
        position = text.find("\n")
        while position >= 0:
            self._starts.append(position + 1)
            position = text.find("\n", position + 1)
        self._length = len(text)

    def offset(self, line: int) -> int:
        """Where line `line` (from 0) begins; the end of the text for a line after the last."""
        return self._starts[line] if line < len(self._starts) else self._length

    def number(self, offset: int) -> int:
        """The line (from 1) the character at `offset` stands in."""
        return bisect_right(self._starts, offset)


@dataclass(frozen=True, slots=True)
class Section:
    """A stretch of text under one heading path, as offsets: its headings, then from `body` what they head."""

    path: tuple[str, ...]
    start: int
    body: int
    end: int
    fences: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Outline:
    """The sections of a text, in order and without a gap, and the first heading in it."""

    first_heading: str | None
    sections: tuple[Section, ...]


@dataclass(frozen=True, slots=True)
class _Heading:
    level: int
    text: str
    start: int
    end: int


def outline_of(text: str, lines: LineIndex, unread_lines: int = 0) -> Outline:
    """The outline of a text whose lines end in `\\n`.

    Only headings of the document itself open a section: what looks like one in code, in HTML, in a
    list or in a quotation does not. A heading with nothing under it but a deeper heading shares the
    section of that one. Of the `unread_lines` at the top, front matter that could not be read, the last
    one only closes the block: it underlines no heading.
    """
    tokens = _BLOCKS.parse(text)
    headings = list(_headings(tokens, lines, unread_lines))
    fences = [_span(token, lines) for token in tokens if token.type == "fence"]
    first = next((heading.text for heading in headings if heading.text), None)
    return Outline(first, tuple(_sections(text, headings, fences)))


def _headings(tokens: Sequence[Token], lines: LineIndex, unread_lines: int) -> Iterator[_Heading]:
    for opening, inline in pairwise(tokens):
        if opening.type != "heading_open" or opening.level > 0:
            continue
        start, end = _span(opening, lines)
        if opening.markup == "-" and end == lines.offset(unread_lines):
            continue
        yield _Heading(int(opening.tag[1:]), _heading_text(inline.content), start, end)


def _heading_text(markdown: str) -> str:
    """What a reader sees of a heading, on one line, of bounded length."""
    # Long ones are cut before they are parsed: emphasis without end is slow to resolve.
    cut = markdown[: 2 * MAX_HEADING_CHARACTERS]
    parts = [
        " " if part.type in ("softbreak", "hardbreak") else part.content
        for token in _INLINE.parseInline(cut)
        for part in token.children or ()
        if part.type != "html_inline"
    ]
    seen = "".join(parts).strip()
    return (cut if is_blank(seen) else seen)[:MAX_HEADING_CHARACTERS].strip()


def _sections(text: str, headings: Sequence[_Heading], fences: Sequence[Span]) -> Iterator[Section]:
    fence_starts = [start for start, _ in fences]
    for path, start, body, end in _stretches(text, headings):
        inside = slice(bisect_left(fence_starts, start), bisect_left(fence_starts, end))
        yield Section(path, start, body, end, tuple(fences[inside]))


def _stretches(text: str, headings: Sequence[_Heading]) -> Iterator[tuple[tuple[str, ...], int, int, int]]:
    first = headings[0].start if headings else len(text)
    if first > 0:
        yield (), 0, 0, first
    path: list[_Heading] = []
    start: int | None = None
    for heading, following in zip_longest(headings, headings[1:]):
        while path and path[-1].level >= heading.level:
            path.pop()
        path.append(heading)
        start = heading.start if start is None else start
        end = len(text) if following is None else following.start
        deeper = following is not None and following.level > heading.level
        if deeper and is_blank(text[heading.end : end]):
            continue
        yield tuple(part.text for part in path), start, heading.end, end
        start = None


def _span(token: Token, lines: LineIndex) -> Span:
    first, after = token.map or (0, 0)
    return lines.offset(first), lines.offset(after)
