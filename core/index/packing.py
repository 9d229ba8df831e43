"""Texts into requests: as many as the provider takes, by items, tokens and bytes, whichever is full first."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from core.model.tokens import estimated_tokens
from core.ports import EmbedLimits

# Room left in a request for what the estimate of tokens misses: a request that is refused costs a round trip.
MARGIN = 0.9


@dataclass(frozen=True, slots=True)
class Size:
    """How big a request is: texts, estimated tokens, bytes of UTF-8."""

    items: int = 0
    tokens: int = 0
    bytes: int = 0

    def plus(self, text: str) -> Size:
        """The size with one more text."""
        return Size(self.items + 1, self.tokens + estimated_tokens(text), self.bytes + _bytes(text))

    def fits(self, limits: EmbedLimits) -> bool:
        """Whether a provider with these limits takes it, as far as estimates go."""
        return (
            self.items <= limits.items
            and (limits.tokens is None or self.tokens <= limits.tokens * MARGIN)
            and (limits.bytes is None or self.bytes <= limits.bytes)
        )


def size_of(texts: Mapping[str, str]) -> Size:
    """The size of a request of these texts."""
    return Size(len(texts), sum(map(estimated_tokens, texts.values())), sum(map(_bytes, texts.values())))


def packs(texts: Mapping[str, str], limits: EmbedLimits) -> Iterator[dict[str, str]]:
    """The texts by key, in order, in requests within the limits; one that is too big alone goes alone."""
    if size_of(texts).fits(limits):  # most often, and cheaper to see than text by text
        if texts:
            yield dict(texts)
        return
    pack: dict[str, str] = {}
    size = Size()
    for key, text in texts.items():
        grown = size.plus(text)
        if pack and not grown.fits(limits):
            yield pack
            pack, grown = {}, Size().plus(text)
        pack[key] = text
        size = grown
    if pack:
        yield pack


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


class LearnedLimits:
    """What providers really take, learned from requests refused for their size. Thread-safe.

    A refusal does not say whether it was for items or tokens. Where the tokens were well within what the
    provider names, or it names nothing, it is taken for items; else for tokens. Either way what is packed next
    is half of what was refused.
    """

    def __init__(self) -> None:
        self._known: dict[str, EmbedLimits] = {}
        self._lock = threading.Lock()

    def of(self, endpoint: str, named: EmbedLimits) -> EmbedLimits:
        """The limits of an endpoint: those it names, or less."""
        with self._lock:
            return self._known.get(endpoint, named)

    def refused(self, endpoint: str, named: EmbedLimits, size: Size) -> None:
        """A request of this size was refused for it, and its halves were taken."""
        with self._lock:
            known = self._known.get(endpoint, named)
            if known.tokens is not None and size.tokens > known.tokens / 2:
                learned = replace(known, tokens=max(1, min(known.tokens, size.tokens // 2)))
            else:
                learned = replace(known, items=max(1, min(known.items, size.items // 2)))
            self._known[endpoint] = learned
