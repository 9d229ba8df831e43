"""The knowledge graph: entities by name, relations between them, and how far one may look. Pure."""

from __future__ import annotations

import re
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Literal

from core.model.terms import fold_text

Direction = Literal["any", "out", "in"]

RELATED = "related to"
BY_HAND = ""  # in the place of a memory's id: a caller states it
MOST_DEPTH = 6
MOST_NEIGHBOURS = 500
MOST_PATHS = 100
MOST_LISTED = 1000
MAX_RELATIONS = 256  # of one memory, or of one call
MAX_WEIGHT = 1e6

_BETWEEN = re.compile(r"(?<=[^\W_])[\s_-]+(?=[^\W_])")
_BLANKS = re.compile(r"\s+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """A relation as its caller gives it, between entities by name: `source` stands in it to `target`.

    Names are the same whatever their case, accents and width. Types of relations are compared as they stand.
    A type of an entity is taken where none is known yet. `weight` is above zero; what is stated twice of one
    memory is added up.
    """

    source: str
    target: str
    type: str = RELATED
    weight: float = 1.0
    source_type: str | None = None
    target_type: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """An entity as its caller gives it."""

    name: str
    type: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Entity:
    """Who or what is known, by the name it was first given. `stated`: by hand, and stays without any relation.

    `names` are all it is known by, where they were asked for.
    """

    id: uuid.UUID
    name: str
    type: str | None
    stated: bool
    created_at: datetime
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A relation as it stands: its weight is the sum of what supports it now, by so many `memories`."""

    source: str
    type: str
    target: str
    weight: float
    memories: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbour:
    """An entity that others lead to in `distance` steps, the last of which is `link`."""

    entity: Entity
    distance: int
    link: Link


@dataclass(frozen=True, slots=True, kw_only=True)
class Path:
    """A way from one entity to another that meets none twice: their names in a row, and the links between them."""

    names: tuple[str, ...]
    links: tuple[Link, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Support:
    """What a relation rests on: a memory by its id, or None for what a caller states by hand."""

    memory_id: str | None
    weight: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """How far to look: steps, how many answers, which types of relations (None: all) and in which direction."""

    depth: int = 1
    limit: int = 50
    types: Sequence[str] | None = None
    direction: Direction = "any"


@lru_cache(maxsize=1 << 16)
def fold_name(name: str) -> str:
    """What makes names one: without case, accents and width, and with one blank where words are parted.

    Blanks, hyphens and underscores between letters or digits all part words, so that the file `ada-lovelace` is
    Ada Lovelace; at the ends of a name they stay, as other marks do. A name of which nothing is left stays whole.
    """
    folded = _BETWEEN.sub(" ", _BLANKS.sub(" ", fold_text(name)).strip())
    return folded or name
