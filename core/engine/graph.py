"""The knowledge graph of a tenant's memories: what they say of whom, and how one leads to another."""

from __future__ import annotations

from collections.abc import Sequence

from core.model.graph import Direction, Entity, Named, Neighbour, Path, Reach, Relation, Support
from core.read.graph import GraphReader
from core.record.database import Database
from core.write.gate import admit_id, admit_tenant
from core.write.relations import GraphWriter, entity, kind
from core.write.text import Cleaner


class Graph:
    """The graph of any tenant. Thread-safe. Names are the same whatever their case, accents and width.

    A relation is seen while a living memory supports it, or a caller states it by hand; depth and counts are bounded
    by `core.model.graph`. Every method raises Refused for a name, type or bound that breaks a rule.
    """

    def __init__(self, database: Database) -> None:
        self._writer = GraphWriter(database)
        self._reader = GraphReader(database)

    def put(self, tenant: str, entities: Sequence[Named], relations: Sequence[Relation] = ()) -> None:
        """State entities and relations by hand. See `GraphWriter.put`."""
        self._writer.put(admit_tenant(tenant), entities, relations)

    def relate(self, tenant: str, memory_id: str, relations: Sequence[Relation]) -> None:
        """Add relations that a memory supports. See `GraphWriter.relate`."""
        self._writer.relate(admit_tenant(tenant), admit_id(memory_id), relations)

    def withdraw(self, tenant: str, relations: Sequence[Relation], memory_id: str | None = None) -> int:
        """Take back relations of a memory, or stated by hand. See `GraphWriter.withdraw`."""
        supporter = None if memory_id is None else admit_id(memory_id)
        return self._writer.withdraw(admit_tenant(tenant), relations, supporter)

    def forget(self, tenant: str, name: str) -> bool:
        """Take back what was stated by hand of an entity. See `GraphWriter.forget`."""
        return self._writer.forget(admit_tenant(tenant), name)

    def merge(self, tenant: str, keep: str, others: Sequence[str]) -> int:
        """Make entities one with `keep`, under all their names. See `GraphWriter.merge`."""
        return self._writer.merge(admit_tenant(tenant), keep, others)

    def entity(self, tenant: str, name: str) -> Entity:
        """An entity by any of its names. See `GraphReader.entity`."""
        return self._reader.entity(admit_tenant(tenant), _name(name))

    def entities(
        self, tenant: str, kind: str | None = None, after: str | None = None, limit: int = 50
    ) -> Sequence[Entity]:
        """Entities (of a type) by name, a page at a time. See `GraphReader.entities`."""
        chosen = None if kind is None else _kind(kind)
        return self._reader.entities(admit_tenant(tenant), chosen, None if after is None else _name(after), limit)

    def neighbours(
        self,
        tenant: str,
        name: str,
        depth: int = 1,
        limit: int = 50,
        types: Sequence[str] | None = None,
        direction: Direction = "any",
    ) -> Sequence[Neighbour]:
        """Entities within `depth` steps. See `GraphReader.neighbours`."""
        reach = Reach(depth=depth, limit=limit, types=_kinds(types), direction=direction)
        return self._reader.neighbours(admit_tenant(tenant), _name(name), reach)

    def paths(
        self,
        tenant: str,
        begin: str,
        end: str,
        depth: int = 4,
        limit: int = 10,
        types: Sequence[str] | None = None,
        direction: Direction = "any",
    ) -> Sequence[Path]:
        """Ways from one entity to another of at most `depth` steps. See `GraphReader.paths`."""
        reach = Reach(depth=depth, limit=limit, types=_kinds(types), direction=direction)
        return self._reader.paths(admit_tenant(tenant), _name(begin), _name(end), reach)

    def support(
        self, tenant: str, source: str, kind: str, target: str, after: str | None = None, limit: int = 50
    ) -> Sequence[Support]:
        """What a relation rests on. See `GraphReader.support`."""
        ends = (_name(source), _name(target))
        return self._reader.support(
            admit_tenant(tenant), ends, _kind(kind), None if after is None else admit_id(after), limit
        )


def _name(given: str) -> str:
    return entity(given, "name", Cleaner())


def _kind(given: str) -> str:
    return kind(given, "type", Cleaner())


def _kinds(given: Sequence[str] | None) -> list[str] | None:
    return None if given is None else [_kind(one) for one in given]
