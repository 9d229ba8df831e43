"""The outline of a Markdown text: its sections by heading, its fenced code, and its `[[links]]` outside of code.

Code spans and escapes are markdown-it's to find; only the link itself is a rule of ours, for CommonMark has none.
Its form is that of Obsidian: `[[Target]]`, `[[Target|shown]]`, `[[Target#heading]]`, `![[Target]]` to embed.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, zip_longest

from markdown_it import MarkdownIt
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token

from core.write.text import is_blank

MAX_HEADING_CHARACTERS = 200

# Blocks are all that is needed of a whole text; what is inside them is parsed for headings alone.
_BLOCKS = MarkdownIt("commonmark").disable("inline")
_INLINE = MarkdownIt("commonmark")
# A link stands on one line; in a table the bar in it is escaped.
_LINK = re.compile(r"(!?)\[\[([^\[\]\n|#^\\]+)(?:[#^][^\[\]\n|\\]*)?(?:\\?\|[^\[\]\n]*)?\]\]")
_NOTE_ENDING = re.compile(r"\.(?:md|markdown)$", re.IGNORECASE)

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
class Wikilink:
    """Where a link leads, whether it embeds that, and the offsets it stands between."""

    target: str
    embeds: bool
    start: int
    end: int


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
    """The sections of a text, in order and without a gap, the first heading in it, and its `[[links]]`."""

    first_heading: str | None
    sections: tuple[Section, ...]
    links: tuple[Wikilink, ...] = ()


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
    links = tuple(_wikilinks(tokens, text, lines))
    return Outline(first, tuple(_sections(text, headings, fences)), links)


def links_in(text: str) -> list[str]:
    """Where the links of a short text lead, such as a value of front matter."""
    return [target for found in _LINK.finditer(text) if (target := _plain(found[2]))]


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


def _wikilinks(tokens: Sequence[Token], text: str, lines: LineIndex) -> Iterator[Wikilink]:
    """The links in the blocks of a text, in order."""
    at = 0
    for token in tokens:
        if token.type != "inline" or "[[" not in token.content or token.map is None:
            continue
        at = max(at, lines.offset(token.map[0]))
        for part in _LINKS.parseInline(token.content)[0].children or ():
            # A block's content is its lines without their indentation, and a link stands on one line.
            start = text.find(part.content, at) if part.type == "wikilink" else -1
            if start >= 0:
                at = start + len(part.content)
                yield Wikilink(part.info, part.markup == "!", start, at)


def _plain(target: str) -> str:
    return _NOTE_ENDING.sub("", target.strip())


def _rule(state: StateInline, silent: bool) -> bool:
    found = _LINK.match(state.src, state.pos, state.posMax)
    if found is None or not _plain(found[2]):
        return False
    if not silent:
        token = state.push("wikilink", "", 0)
        token.content, token.info, token.markup = found[0], _plain(found[2]), found[1]
    state.pos = found.end()
    return True


def _link_parser() -> MarkdownIt:
    parser = MarkdownIt("zero").enable(["backticks", "escape"])
    parser.inline.ruler.push("wikilink", _rule)
    return parser


_LINKS = _link_parser()
