"""Whom a query names. Pure."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache

from core.model.languages import language_of, stop_words
from core.model.terms import fold, words_of

_UNSPACED = re.compile("[\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u3041-\u30ff\u3400-\u9fff\uac00-\ud7a3]")
_WORD = re.compile(r"[^\W_]+")


class Naming:
    """A query as names are looked for in it: by word, without case, width and accents, in any script."""

    def __init__(self, text: str) -> None:
        plain = unicodedata.normalize("NFKC", text)
        words = _WORD.findall(plain)
        self._folded = plain.casefold() if _UNSPACED.search(plain) else ""
        stops = stop_words(language_of([word.lower() for word in words]))
        cased = any(word[0].isupper() for word in words)
        # Whoever writes capitals at all writes names with one; a name that is also a common word ("will",
        # "hope") counts only where it stands as a name.
        self._names = {
            fold(word)
            for number, word in enumerate(words)
            if (word[0].isupper() or not cased or (not word[0].islower() and not word[0].isupper()))
            and (word.lower() not in stops or (number > 0 and word[0].isupper()))
        }

    def names(self, speaker: str | None) -> bool:
        """Whether the query names this speaker: by one word of the name, or by the name inside unspaced text."""
        if speaker is None:
            return False
        words = _name_words(speaker)
        if not self._names.isdisjoint(words):
            return True
        return bool(self._folded) and any(
            len(word) > 1 and _UNSPACED.search(word) is not None and word in self._folded for word in words
        )

    def named(self, speakers: Iterable[str | None]) -> set[str]:
        """Those of the speakers the query names."""
        return {speaker for speaker in speakers if speaker is not None and self.names(speaker)}


@lru_cache(maxsize=4096)
def _name_words(speaker: str) -> frozenset[str]:
    return frozenset(fold(part) for word in words_of(speaker) for part in _WORD.findall(word) if len(part) > 1)
