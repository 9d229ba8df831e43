"""A cache that keeps nothing and locks that nobody can say anything of, for running without Redis."""

from __future__ import annotations

from datetime import timedelta

from core.ports import Versioned


class NoCache:
    """Implements the port `Cache`: every get is a miss."""

    def get(self, key: str) -> bytes | None:  # noqa: ARG002  the port's signature
        """Nothing."""
        return None

    def put(self, key: str, value: bytes, keep: timedelta) -> None:
        """Keep nothing."""

    def drop(self, key: str) -> None:
        """Nothing is there to forget."""

    def get_versioned(self, key: str) -> Versioned | None:  # noqa: ARG002
        """Nothing."""
        return None

    def put_newer(self, key: str, value: Versioned, keep: timedelta) -> None:
        """Keep nothing."""

    def drop_older(self, key: str, version: int, keep: timedelta) -> bool:  # noqa: ARG002
        """Nothing is there to forget."""
        return True

    def close(self) -> None:
        """Nothing is held."""
