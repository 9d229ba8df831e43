"""The graph as it is read: entities, what is near them, how one leads to another, and what that rests on.

Only what a living memory supports, or a caller states, is seen: a relation is gone with its last memory.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from core.errors import NotFound, Refused
from core.model.graph import (
    MOST_DEPTH,
    MOST_LISTED,
    MOST_NEIGHBOURS,
    MOST_PATHS,
    Entity,
    Neighbour,
    Path,
    Reach,
    Support,
    fold_name,
)
from core.record import graph
from core.record.database import Database, Session

DIRECTIONS = ("any", "out", "in")


class GraphReader:
    """Reads the graph of any tenant. Thread-safe. Names are taken as people write them."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def entity(self, tenant: str, name: str) -> Entity:
        """An entity by any of its names, with all of them. Raises NotFound."""
        with self._database.tenant(tenant) as session:
            found = _entities(session, tenant, [name])[0]
            return replace(found, names=graph.names_of(session, tenant, found.id))

    def entities(self, tenant: str, kind: str | None = None, after: str | None = None, limit: int = 50) -> list[Entity]:
        """Entities (of a type) in the order of their names, behind the name `after`."""
        _bounded(limit, MOST_LISTED, "limit")
        with self._database.tenant(tenant) as session:
            return graph.page(session, tenant, kind, "" if after is None else fold_name(after), limit)

    def neighbours(self, tenant: str, name: str, reach: Reach) -> list[Neighbour]:
        """Entities within reach, the nearest first and of those the most strongly linked; each once.

        Of an entity that very many memories relate, not all is followed: see `core.record.graph`. Raises NotFound.
        """
        _checked(reach, MOST_NEIGHBOURS)
        with self._database.tenant(tenant) as session:
            start = _entities(session, tenant, [name])[0]
            reached = graph.neighbours(session, tenant, start.id, reach)
            steps = graph.steps(session, tenant, [(one.via, one.entity.id) for one in reached], reach)
        found = [
            Neighbour(entity=one.entity, distance=one.distance, link=steps[one.via, one.entity.id].link)
            for one in reached
            if (one.via, one.entity.id) in steps  # else its last support went meanwhile
        ]
        return sorted(found, key=lambda one: (one.distance, -one.link.weight, fold_name(one.entity.name)))

    def paths(self, tenant: str, begin: str, end: str, reach: Reach) -> list[Path]:
        """Ways from one entity to another within reach, the shortest first, then the stronger by its weakest link.

        None meets an entity twice. Raises NotFound, Refused where both are one.
        """
        _checked(reach, MOST_PATHS)
        with self._database.tenant(tenant) as session:
            one, other = (each.id for each in _entities(session, tenant, [begin, end]))
            if one == other:
                raise Refused("both names are of one entity", where="end")
            ways = graph.paths(session, tenant, one, other, reach)
            pairs = list(dict.fromkeys(pair for way in ways for pair in pairwise(way)))
            steps = graph.steps(session, tenant, pairs, reach)
        return _paths(ways, steps)

    def support(
        self, tenant: str, ends: tuple[str, str], kind: str, after: str | None = None, limit: int = 50
    ) -> list[Support]:
        """What a relation of a type between two entities rests on now, by memory id behind `after`. Raises NotFound."""
        _bounded(limit, MOST_LISTED, "limit")
        with self._database.tenant(tenant) as session:
            source, target = (each.id for each in _entities(session, tenant, list(ends)))
            return graph.support_of(session, tenant, (source, target), kind, after, limit)


def _paths(ways: Sequence[tuple[uuid.UUID, ...]], known: Mapping[graph.Pair, graph.Step]) -> list[Path]:
    found = []
    for way in ways:
        steps = [known[pair] for pair in pairwise(way) if pair in known]
        if len(steps) == len(way) - 1:  # else the last support of one went meanwhile
            names = (steps[0].names[0], *(step.names[1] for step in steps))
            found.append(Path(names=names, links=tuple(step.link for step in steps)))
    return sorted(found, key=lambda one: (len(one.links), -min(link.weight for link in one.links), one.names))


def _entities(session: Session, tenant: str, names: Sequence[str]) -> list[Entity]:
    keys = [fold_name(name) for name in names]
    found = graph.entities_of(session, tenant, keys)
    if missing := [name for name, key in zip(names, keys, strict=True) if key not in found]:
        raise NotFound(f"there is no entity {missing[0]!r}")
    return [found[key] for key in keys]


def _checked(reach: Reach, most: int) -> None:
    _bounded(reach.depth, MOST_DEPTH, "depth")
    _bounded(reach.limit, most, "limit")
    if reach.direction not in DIRECTIONS:
        raise Refused(f"direction is one of {', '.join(DIRECTIONS)}", where="direction")


def _bounded(value: int, most: int, where: str) -> None:
    if not 1 <= value <= most:
        raise Refused(f"{where} is within 1..{most}", where=where)
