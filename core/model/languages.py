"""What the keyword leg knows of languages: their stop words and stemmers, and which one a text is in."""

from __future__ import annotations

import threading
from collections.abc import Collection
from functools import cache, lru_cache

import Stemmer
from stopwords import get_stopwords

# Languages with a stop list. Those of Latin letters are told apart by their stop words, in this order on ties.
LATIN = ("en", "es", "pt", "de", "fr")
LISTED = (*LATIN, "ru", "zh", "ja", "ko", "ar")
_STEMMERS = {
    "en": "english",
    "es": "spanish",
    "pt": "portuguese",
    "de": "german",
    "fr": "french",
    "ru": "russian",
    "ar": "arabic",
    "it": "italian",
    "nl": "dutch",
    "sv": "swedish",
    "da": "danish",
    "no": "norwegian",
    "fi": "finnish",
    "hu": "hungarian",
    "ro": "romanian",
    "tr": "turkish",
    "el": "greek",
    "hi": "hindi",
    "pl": "polish",
}
_WORDS_KEPT = 1 << 17
_stemming = threading.Lock()


@cache
def stop_words(language: str) -> frozenset[str]:
    """Words of a language that say nothing by themselves, in lower case; empty for one without a list."""
    if language not in LISTED:
        return frozenset()
    return frozenset(word.casefold() for word in get_stopwords(language) if word)


@lru_cache(maxsize=_WORDS_KEPT)
def stem(word: str, language: str) -> str:
    """The stem of a word in lower case, accents as written; the word itself where there is no stemmer."""
    if language not in _STEMMERS:
        return word
    with _stemming:  # a stemmer is not to be used by two threads at once
        stemmed: str = _stemmer(language).stemWord(word)
    return stemmed or word


def language_of(words: Collection[str]) -> str:
    """The language of Latin letters whose stop words stand most often among `words` (lower case)."""
    distinct = set(words)
    return max(LATIN, key=lambda language: len(distinct & stop_words(language)))


@cache
def _stemmer(language: str) -> Stemmer.Stemmer:
    return Stemmer.Stemmer(_STEMMERS[language])
