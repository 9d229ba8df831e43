"""Events on streams of Redis or Valkey, one stream a tenant, each trimmed to about a number of entries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from core.adapters.redis_server import RedisServer
from core.errors import Unavailable
from core.model.event import Event
from core.model.names import index_group


class RedisStreams:
    """Implements the port `EventStream`; the stream of a tenant is `{prefix}events:{encoded tenant}`."""

    def __init__(self, server: RedisServer, *, prefix: str, keep: int) -> None:
        self._server = server
        self._prefix = prefix
        self._keep = keep

    def name(self, tenant: str) -> str:
        """Name of a tenant's stream."""
        return f"{self._prefix}events:{index_group(tenant)}"

    def publish(self, tenant: str, events: Sequence[Event]) -> None:
        """Append events in their order. Raises Unavailable: some of them may be there."""
        key = self.name(tenant)

        def send(client: Any) -> Any:
            batch = client.pipeline(transaction=False)
            for one in events:
                batch.xadd(key, _fields(one), maxlen=self._keep, approximate=True)
            return batch.execute()

        if events and self._server.ask(send) is None:
            raise Unavailable("the streams of events are out of reach")


def _fields(event: Event) -> dict[str, str | int]:
    return {
        "seq": event.seq,
        "kind": event.kind,
        "id": event.memory_id,
        "version": event.version,
        "at": event.at.isoformat(),
    }
