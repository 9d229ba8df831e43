"""Locks where there is no server for them: nobody can say who works, and the fence in the record decides alone."""

from __future__ import annotations

from datetime import timedelta


class NoLocks:
    """Implements the port `Locks`; every answer is "nobody can say"."""

    def take(self, name: str, owner: str, keep: timedelta) -> bool | None:  # noqa: ARG002  the port's signature
        """None: nobody can say."""
        return None

    def renew(self, name: str, owner: str, keep: timedelta) -> bool | None:  # noqa: ARG002
        """None: nobody can say."""
        return None

    def free(self, name: str, owner: str) -> None:
        """Nothing was held."""

    def close(self) -> None:
        """Nothing is held."""
