"""Embedding spaces: everything that decides a vector, and the fingerprint that names it."""

from __future__ import annotations

import hashlib
import hmac
import json
from dataclasses import asdict, dataclass
from typing import Any

FINGERPRINT_BYTES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingSpace:
    """What has to be equal for two vectors to be comparable. The same width alone is not enough.

    `template` is a format string over `title` and `content`; a memory without a title is embedded by
    its content alone. `max_characters` cuts the embedded text (not the record) at a fixed length.
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

    @property
    def fingerprint(self) -> str:
        """Name of the space: 32 hex digits, equal exactly when every field is equal."""
        canonical = json.dumps(asdict(self), sort_keys=True, ensure_ascii=True, separators=(",", ":"))
        return hashlib.blake2b(canonical.encode(), digest_size=FINGERPRINT_BYTES).hexdigest()

    def document_text(self, title: str | None, content: str) -> str:
        """The text a provider is given for a memory; what `text_hash` is taken over."""
        body = self.template.format(title=title, content=content) if title else content
        return self.document_prefix + body[: self.max_characters]

    def query_text(self, text: str) -> str:
        """The text a provider is given for a query."""
        return self.query_prefix + text[: self.max_characters]

    def as_dict(self) -> dict[str, Any]:
        """Every field, as plain JSON values; `EmbeddingSpace(**fields)` gives the space back."""
        return asdict(self)


def text_hash(text: str, key: bytes) -> str:
    """Keyed hash of an embedded text, 32 hex digits.

    Keyed (HMAC-SHA256, RFC 2104, cut to 128 bits), so that whoever reads an index cannot test it
    against guessed texts.
    """
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()[:32]
