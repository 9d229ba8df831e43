"""How memories are made whole and opened before their text is looked at."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from core.model.memory import Memory

# Memories whole and in the clear, by id, and why some cannot be had so. Asks other stores: not in a transaction.
Opening = Callable[[Mapping[str, Memory]], tuple[dict[str, Memory], dict[str, str]]]


def as_they_are(memories: Mapping[str, Memory]) -> tuple[dict[str, Memory], dict[str, str]]:
    """Where nothing is sealed, and everything is in its row."""
    return dict(memories), {}
