"""The port to whoever holds the master key."""

from __future__ import annotations

from typing import Protocol


class KeyProvider(Protocol):
    """Who holds the master key that wraps data keys: a file, the environment, or a key management service.

    Raises Unavailable (worth another try) and Misconfigured (no such key, no right to it).
    """

    @property
    def name(self) -> str:
        """Name of the master key in use; it is noted beside each data key that it wraps."""

    def wrap(self, tenant: str, key: bytes) -> bytes:
        """A data key of a tenant, wrapped; only `unwrap` for the same tenant opens it."""

    def unwrap(self, tenant: str, wrapped: bytes, name: str) -> bytes:
        """The data key that was wrapped under the master key of this name."""

    def destroy(self, tenant: str) -> None:
        """Give up what is kept for this tenant alone, if anything: its data keys are about to be destroyed."""
