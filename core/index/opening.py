"""How memories that are sealed are opened before their text is looked at."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from core.model.memory import Memory

# Memories in the clear, by id, and why some cannot be had so.
Opening = Callable[[Mapping[str, Memory]], tuple[dict[str, Memory], dict[str, str]]]


def as_they_are(memories: Mapping[str, Memory]) -> tuple[dict[str, Memory], dict[str, str]]:
    """Where nothing is sealed."""
    return dict(memories), {}
