"""What a log line is about: bound for the length of a block, and shown by whoever writes the lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

_ABOUT: ContextVar[Mapping[str, str | int]] = ContextVar("memory_about")


@contextmanager
def about(**bound: str | int | None) -> Iterator[None]:
    """Bind names (tenant, generation, batch) to every line of the block, in this thread or task. None: not bound.

    A thread that is started meanwhile knows nothing of them: bind there too.
    """
    token = _ABOUT.set({**bound_now(), **{name: value for name, value in bound.items() if value is not None}})
    try:
        yield
    finally:
        _ABOUT.reset(token)


def bound_now() -> Mapping[str, str | int]:
    """What is bound here and now."""
    return _ABOUT.get({})
