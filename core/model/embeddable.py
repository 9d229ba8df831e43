"""Which texts can have a vector at all, whoever makes it."""

from __future__ import annotations

from collections.abc import Sequence

from core.errors import Refused


def refuse_unembeddable(texts: Sequence[str]) -> None:
    """Raises Refused, with `index` in its details, for the first text that is blank or no Unicode."""
    for index, text in enumerate(texts):
        if not text.strip():
            raise Refused("a blank text has no vector", where=f"texts[{index}]", index=index)
        if not _is_unicode(text):
            message = "the text is not Unicode (a lone surrogate)"
            raise Refused(message, where=f"texts[{index}]", index=index)


def _is_unicode(text: str) -> bool:
    # Said apart from the refusal, which must not carry the encoder's error along: that holds the text.
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
