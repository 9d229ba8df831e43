"""The port to those outside the engine who want to hear of changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from core.model.event import Event


class EventStream(Protocol):
    """Where those outside the engine hear of changes: a stream a tenant, of bounded length."""

    def publish(self, tenant: str, events: Sequence[Event]) -> None:
        """Append events in their order. Raises Unavailable: some of them may be there all the same."""
