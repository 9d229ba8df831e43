"""What an erasure is asked to erase, and the stores it asks."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal, Protocol

from core.errors import Refused

Kind = Literal["id", "session", "subject", "all"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """All memories of a tenant, or those of one id, session or subject."""

    tenant: str
    kind: Kind
    value: str = ""

    def __post_init__(self) -> None:
        if (self.kind == "all") != (self.value == ""):
            raise Refused("an erasure names an id, a session or a subject, or asks for all", where=self.kind)


@dataclass(frozen=True, slots=True)
class Item:
    """A memory that is to be erased: its point, and the newest version that is meant."""

    point: uuid.UUID
    version: int


class Place(Protocol):
    """A store besides the record that may hold something of memories: remove it there, and look whether it is gone.

    Both take memories of a tenant by id, and mean no version after the one given; with `everything` all that the
    store holds of the tenant is meant, but for what belongs to memories that were written meanwhile. They may be
    repeated, and raise Transient when the store is out of reach.
    """

    @property
    def name(self) -> str:
        """What a receipt calls it."""

    @property
    def at_once(self) -> bool:
        """Whether everything is removed, and looked for, at once rather than memory by memory: that would cost more."""

    def remove(self, tenant: str, memories: Mapping[str, Item], *, everything: bool) -> timedelta | None:
        """Remove what is there of these memories. A time: what could not be seen is gone after it by itself."""

    def look(self, tenant: str, memories: Mapping[str, Item], *, everything: bool) -> int:
        """How much is there of these memories now."""
