"""A cache that keeps nothing, for running without one."""

from __future__ import annotations

from datetime import timedelta


class NoCache:
    """Implements the port `Cache`: every get is a miss."""

    def get(self, key: str) -> bytes | None:  # noqa: ARG002  the port's signature
        """Nothing."""
        return None

    def put(self, key: str, value: bytes, keep: timedelta) -> None:
        """Keep nothing."""

    def drop(self, key: str) -> None:
        """Nothing is there to forget."""

    def close(self) -> None:
        """Nothing is held."""
