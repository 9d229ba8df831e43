"""Text as the engine keeps it: what no store or provider can hold is mended, the rest stays exactly."""

from __future__ import annotations

import re
import unicodedata

_SURROGATES = re.compile("[\ud800-\udfff]")
_UNSEEN_CATEGORIES = frozenset({"Cc", "Cf", "Zs", "Zl", "Zp"})
# Characters of other categories that show nothing: Unicode's default-ignorable ones, and the empty
# Braille cell. A provider embeds a text of these alone to noise, or refuses it.
_UNSEEN = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2065\u2800\u3164\uffa0"
    + "".join(map(chr, (*range(0xFE00, 0xFE10), *range(0xFFF0, 0xFFF9), *range(0xE0000, 0xE1000))))
)


def clean_text(text: str) -> str:
    """`text` without U+0000, a surrogate pair as the one character it means, a lone surrogate as U+FFFD.

    Everything else is kept: no normalisation, no trimming. Cleaning twice is cleaning once, and the
    result always encodes as UTF-8.
    """
    plain = str.__str__(text).replace("\x00", "")
    if _SURROGATES.search(plain) is None:
        return plain
    return plain.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def is_blank(text: str) -> bool:
    """Whether nothing in `text` can be seen: white space of any kind, control and zero-width characters."""
    return all(
        character.isspace() or unicodedata.category(character) in _UNSEEN_CATEGORIES or character in _UNSEEN
        for character in text
    )


def has_controls(text: str) -> bool:
    """Whether `text` holds a control character (U+0000 to U+001F, U+007F to U+009F)."""
    return any(unicodedata.category(character) == "Cc" for character in text)


class Cleaner:
    """Cleans the texts of one input and remembers the paths of those it changed."""

    def __init__(self) -> None:
        self._changed: dict[str, None] = {}

    @property
    def changed(self) -> tuple[str, ...]:
        """Paths of the texts that were changed, in the order they were met."""
        return tuple(self._changed)

    def clean(self, text: str, where: str) -> str:
        """`clean_text(text)`; `where` is remembered if that changed anything."""
        cleaned = clean_text(text)
        if cleaned != text:
            self._changed[where] = None
        return cleaned
