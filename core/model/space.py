"""Embedding spaces: everything that decides a vector, and the fingerprint that names it."""

from __future__ import annotations

import hashlib
import hmac
import json
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

from core.model.tokens import length_within

FINGERPRINT_BYTES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingSpace:
    """What has to be equal for two vectors to be comparable. The same width alone is not enough.

    `template` is a format string over `title` and `content`; a memory without a title is embedded by
    its content alone. `max_characters` and `max_tokens` (estimated) cut the embedded text, not the record: at
    whichever comes first, and the same text always at the same place.
    """

    provider: str
    model: str
    dimensions: int
    endpoint: str = ""
    revision: str = ""
    normalised: bool = True
    template: str = "{title}\n\n{content}"
    document_prefix: str = ""
    query_prefix: str = ""
    max_characters: int = 16_000
    max_tokens: int | None = None

    @property
    def fingerprint(self) -> str:
        """Name of the space: 32 hex digits, equal exactly when every field is equal."""
        return _fingerprint(self)

    def document_text(self, title: str | None, content: str) -> str:
        """The text a provider is given for a memory; what `text_hash` is taken over."""
        return self.document_prefix + self._cut(self._body(title, content))

    def cuts(self, title: str | None, content: str) -> bool:
        """Whether a memory is longer than what is embedded of it."""
        body = self._body(title, content)
        return len(self._cut(body)) < len(body)

    def query_text(self, text: str) -> str:
        """The text a provider is given for a query."""
        return self.query_prefix + self._cut(text)

    def as_dict(self) -> dict[str, Any]:
        """Every field that is set, as plain JSON values; `EmbeddingSpace(**fields)` gives the space back."""
        # Without `max_tokens` where there is none: spaces made before there was such a field keep their name.
        return {name: value for name, value in asdict(self).items() if value is not None}

    def _body(self, title: str | None, content: str) -> str:
        return self.template.format(title=title, content=content) if title else content

    def _cut(self, text: str) -> str:
        cut = text[: self.max_characters]
        return cut if self.max_tokens is None else cut[: length_within(cut, self.max_tokens)]


@lru_cache(maxsize=1024)
def _fingerprint(space: EmbeddingSpace) -> str:
    """Kept, because it is asked for with every text."""
    canonical = json.dumps(space.as_dict(), sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.blake2b(canonical.encode(), digest_size=FINGERPRINT_BYTES).hexdigest()


def text_hash(text: str, key: bytes) -> str:
    """Keyed hash of an embedded text, 32 hex digits.

    Keyed (HMAC-SHA256, RFC 2104, cut to 128 bits), so that whoever reads an index cannot test it
    against guessed texts.
    """
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()[:32]
