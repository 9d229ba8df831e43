"""The port to what all workers on one provider key share: how much may be asked, and when."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from core.model.quota import Grant, Lane, Quota, Wait


class Throttle(Protocol):
    """Who may send a provider a request now, by its limits for a key. No call raises or blocks.

    With what is shared out of reach, each worker keeps a set share of the limits by itself.
    """

    def take(
        self, key: str, tokens: int, lane: Lane, quota: Quota, owner: str, tenant: str | None = None
    ) -> Grant | Wait:
        """Leave for one request of about `tokens`, or how many seconds to wait before asking again.

        `owner` is who asks, the same at every asking for one request: it keeps its place in the line. Queries
        go before bulk work and have a part to themselves; tenants take turns.
        """

    def give_back(self, key: str, grant: Grant, used_tokens: int | None = None) -> None:
        """The request has ended; `used_tokens` takes the place of the estimate."""

    def leave(self, key: str, owner: str) -> None:
        """This owner waits no longer: what was set aside for it is free. Not waiting: nothing."""

    def cool_down(self, key: str, seconds: float) -> None:
        """Nobody on this key is granted anything for so long from now; a longer time that runs already stays."""

    def cooling(self, keys: Iterable[str]) -> frozenset[str]:
        """Those of `keys` that cool down now."""

    def close(self) -> None:
        """Give back what is held."""
