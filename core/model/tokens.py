"""How many tokens a text has, as near as one can say without the provider's own tokenizer.

OpenAI's rule of thumb is four bytes of UTF-8 a token, which holds for Latin letters; scripts outside of ASCII
come near one token a character. The greater of the two is taken, and whoever packs leaves a margin.
"""

from __future__ import annotations

BYTES_A_TOKEN = 4


def estimated_tokens(text: str) -> int:
    """An estimate, at least 1."""
    size = len(text.encode(errors="replace"))
    beyond_ascii = len(text) - len(text.encode("ascii", "ignore"))
    return max(1, -(-size // BYTES_A_TOKEN), beyond_ascii)


def length_within(text: str, tokens: int) -> int:
    """How many characters of a text, from its start, are estimated at no more than `tokens`; at least 1."""
    if estimated_tokens(text) <= tokens:
        return len(text)
    low, high = 1, len(text)
    while low < high:  # the estimate never falls as the text grows
        middle = (low + high + 1) // 2
        if estimated_tokens(text[:middle]) <= tokens:
            low = middle
        else:
            high = middle - 1
    return low
