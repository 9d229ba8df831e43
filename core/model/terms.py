"""From texts to the terms of the keyword leg, the same for what is kept and what is asked.

Widths are folded (NFKC), then case and accents. A word gives itself and, beside it, its stem in the text's
language. Runs of Chinese, Japanese and Korean characters give bigrams (and single Han characters), runs of
Thai and other scripts without spaces trigrams. Stop words are left out unless they stand as names do; a
sentence of Chinese, Japanese or Korean is asked without the grams that are made of them.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from core.model.languages import LISTED, language_of, stem, stop_words

# Rises when the same text gives other terms than before: what was written under an earlier one is made anew.
TERMS_EDITION = 1
MAX_TERM = 64
# How much a word itself counts in a query beside its stem.
EXACT_WEIGHT = 0.25
# More words or grams than this are no phrase.
PHRASE = 6

_CJK = "\u3005\u3007\u3041-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uac00-\ud7a3\U00020000-\U0003ffff"
_UNSPACED = "\u0e01-\u0e3a\u0e40-\u0e4e\u0e80-\u0eff\u0f00-\u0fbc\u1000-\u1049\u1050-\u109f\u1780-\u17d3"
# Marks that belong to words though they are no letters: accents, points, and the vowels of Indic scripts.
_MARKS = "\u0300-\u036f\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u0900-\u0963\u0966-\u0dff"
_LETTERS = rf"(?:(?![{_CJK}{_UNSPACED}_])[\w{_MARKS}])"
_TOKEN = re.compile(rf"(?P<cjk>[{_CJK}]+)|(?P<unspaced>[{_UNSPACED}]+)|{_LETTERS}+(?:['’]{_LETTERS}+)*")
_HAN = re.compile("[\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
_KANA = re.compile("[\u3041-\u30ff\u31f0-\u31ff]")
_HANGUL = re.compile("[\uac00-\ud7a3]")
_ACCENTS = re.compile("[\u0300-\u036f\u0591-\u05c7\u0610-\u061a\u0640\u064b-\u065f\u0670]+")
_SENTENCE_END = re.compile(r"(?:^|[.!?:;…。！？\n\"“”«»()\[\]*#>|—–-])\s*$")
_BEFORE = 4  # characters before a word in which the end of a sentence is looked for


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms of a text with how often each stands in it, and its length: words that are no stop words."""

    counts: Mapping[str, int]
    length: int


def terms_of(text: str, language: str | None = None) -> Terms:
    """What a record is found by. `language` (such as `de`) is taken from the text itself unless given."""
    counts: Counter[str] = Counter()
    length = 0
    for terms in _tokens(text, language):
        length += 1
        for term in terms:
            counts[term] += 1
    return Terms(counts, length)


def terms_asked(text: str, language: str | None = None) -> dict[str, float]:
    """The terms of a query and how much each counts. Empty only where the text holds no letter or digit.

    A query of stop words alone is asked as it stands: "The Who" finds the band.
    """
    asked: dict[str, float] = {}
    tokens = list(_tokens(text, language, single=False))
    if len(tokens) > PHRASE:  # a phrase is looked for as it stands, a sentence by what it is about
        tokens = _telling(tokens, text) or tokens
    tokens = tokens or list(_tokens(text, language, single=False, keep_stops=True))
    for exact, *others in tokens:
        weights = {exact: 1.0} if not others else {others[0]: 1.0, exact: EXACT_WEIGHT}
        for term, weight in weights.items():
            asked[term] = asked.get(term, 0.0) + weight
    return asked


def words_of(text: str) -> list[str]:
    """The words of a text folded, one after another, stop words included; runs without spaces stay whole."""
    plain = unicodedata.normalize("NFKC", text)
    return [fold(found[0]) for found in _TOKEN.finditer(plain)]


@lru_cache(maxsize=1 << 16)
def fold(word: str) -> str:
    """A word without case, width and accents, cut at MAX_TERM characters."""
    return fold_text(word)[:MAX_TERM]


def fold_text(text: str) -> str:
    """A text without case, width and accents."""
    lowered = unicodedata.normalize("NFKC", text).casefold()
    if lowered.isascii():
        return lowered
    return unicodedata.normalize("NFC", _ACCENTS.sub("", unicodedata.normalize("NFD", lowered)))


def _tokens(
    text: str, language: str | None, *, single: bool = True, keep_stops: bool = False
) -> Iterator[tuple[str, ...]]:
    """For each word or gram that counts: the term, and its stem if that is another. `single`: Han characters too."""
    plain = unicodedata.normalize("NFKC", text)
    found = list(_TOKEN.finditer(plain))
    if language is None:
        language = language_of([one[0].lower() for one in found if one.lastgroup is None])
    for one in found:
        if one.lastgroup == "cjk":
            yield from _grams(one[0], single=single)
        elif one.lastgroup == "unspaced":
            yield from ((gram,) for gram in _cut(one[0], 3))
        else:
            named = keep_stops or _stands_as_name(plain, one)
            yield from _word(one[0].replace("’", "'"), _written_in(one[0], language), named)


def _grams(run: str, *, single: bool) -> Iterator[tuple[str, ...]]:
    if len(run) == 1:
        yield (run,)
        return
    yield from ((left + right,) for left, right in pairwise(run))
    if single:  # so that a character asked for alone is found
        yield from ((character,) for character in _HAN.findall(run))


def _telling(tokens: list[tuple[str, ...]], text: str) -> list[tuple[str, ...]]:
    """The tokens without grams that are stop words, or made of them, in the language of the text's characters."""
    stops = stop_words("ko" if _HANGUL.search(text) else "ja" if _KANA.search(text) else "zh")
    return [one for one in tokens if one[0] not in stops and not all(character in stops for character in one[0])]


def _cut(run: str, size: int) -> Iterator[str]:
    yield from (run[start : start + size] for start in range(max(1, len(run) - size + 1)))


def _written_in(word: str, language: str) -> str:
    """The language of a word: its script says more than the text around it."""
    first = word[0]
    if "\u0400" <= first <= "\u052f":
        return "ru"
    if "\u0600" <= first <= "\u06ff":
        return language if language in {"fa", "ur"} else "ar"
    return language


@lru_cache(maxsize=1 << 17)
def _word(word: str, language: str, named: bool) -> tuple[tuple[str, ...], ...]:
    """The terms of a word: its parts around apostrophes that are no stop words, each with its stem."""
    lowered = word.casefold()
    stops = frozenset[str]() if named else stop_words(language)
    if lowered in stops:
        return ()
    parts = [part for part in lowered.split("'") if len(part) > 1] or [lowered]
    if "'" in lowered:
        known = stop_words(language)
        parts = [part for part in parts if part not in known] or []
    made = []
    for part in parts:
        if part in stops:
            continue
        exact, stemmed = fold(part), fold(stem(part[:MAX_TERM], language))
        if exact:  # marks alone fold to nothing
            made.append((exact,) if stemmed in {exact, ""} else (exact, stemmed))
    return tuple(made)


def _stands_as_name(text: str, found: re.Match[str]) -> bool:
    """Whether a word is written as names are: in capitals, or with one inside a sentence ("An", "IT")."""
    word = found[0]
    if len(word) < 2 or not word[0].isupper() or word[1] in "'’":
        return False
    if word.isupper():
        return not text.isupper()
    return _SENTENCE_END.search(text, max(0, found.start() - _BEFORE), found.start()) is None


def known_language(given: str | None) -> str | None:
    """A language somebody named (`de`, `pt-BR`) as the terms know it, or None."""
    if given is None:
        return None
    short = given.strip().lower().replace("_", "-").partition("-")[0]
    return short if short in LISTED else None
