"""Streams of events in lists, which can be taken out of reach."""

from __future__ import annotations

from collections.abc import Sequence

from core.errors import Unavailable
from core.model.event import Event


class FakeStream:
    def __init__(self) -> None:
        self.told: dict[str, list[Event]] = {}
        self.out_of_reach = False

    def publish(self, tenant: str, events: Sequence[Event]) -> None:
        if self.out_of_reach:
            raise Unavailable("the streams of events are out of reach")
        self.told.setdefault(tenant, []).extend(events)
