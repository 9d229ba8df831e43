"""Entities and relations on their way in, under the rules of the text gate; and the ways they are put by themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields

from core.errors import NotFound, Refused
from core.model.graph import BY_HAND, MAX_RELATIONS, MAX_WEIGHT, Named, Relation, fold_name
from core.record import graph
from core.record.database import Database
from core.write import fields as rules
from core.write.text import Cleaner

MAX_TYPE_BYTES = 128
_KEYS = frozenset(field.name for field in fields(Relation))


class GraphWriter:
    """Changes the graph of any tenant. Thread-safe. Every call is one transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def put(self, tenant: str, entities: Sequence[Named], given: Sequence[Relation] = ()) -> None:
        """State entities and relations by hand: they stay, without any memory, until they are taken back.

        Put again, they are the same; a type or a weight that is given anew takes the place of the old one.
        """
        cleaner = Cleaner()
        named = _listed(entities, "entities")
        asked = [_named(one, f"entities[{number}]", cleaner) for number, one in enumerate(named)]
        stated = relations(given, "relations", cleaner)
        with self._database.tenant(tenant) as session:
            graph.put(session, tenant, asked, stated)

    def relate(self, tenant: str, memory_id: str, given: Sequence[Relation]) -> None:
        """Add relations that a memory supports: until it is changed, deleted or at its end, or they are withdrawn.

        Raises NotFound for a memory that is not there, Refused for a sealed one: names are kept in the clear.
        """
        stated = relations(given, "relations", Cleaner())
        with self._database.tenant(tenant) as session:
            sealed = graph.supporter(session, tenant, memory_id)
            if sealed is None:
                raise NotFound("there is no such memory")
            if sealed:
                raise Refused("a sensitive memory supports no relations: names are kept in the clear", where="id")
            graph.support(session, tenant, memory_id, stated)

    def withdraw(self, tenant: str, given: Sequence[Relation], memory_id: str | None = None) -> int:
        """Take back relations that a memory supports, or that were stated by hand; how many there were."""
        stated = relations(given, "relations", Cleaner())
        with self._database.tenant(tenant) as session:
            return graph.withdraw(session, tenant, stated, BY_HAND if memory_id is None else memory_id)

    def forget(self, tenant: str, name: str) -> bool:
        """Take back what was stated by hand of an entity; it stays while memories name it. False: nothing was."""
        with self._database.tenant(tenant) as session:
            return graph.disown(session, tenant, fold_name(entity(name, "entity", Cleaner())))

    def merge(self, tenant: str, keep: str, others: Sequence[str]) -> int:
        """Make `others` one with `keep`, which is stated by that; how many became part of it (none: they were).

        All names lead to it from here on, also those nobody knew yet. Relations and what supports them move, weights
        of the same relation are added, and what would lead from it to itself goes. Raises NotFound for `keep`.
        """
        cleaner = Cleaner()
        kept = fold_name(entity(keep, "keep", cleaner))
        named = [entity(one, f"others[{number}]", cleaner) for number, one in enumerate(_listed(others, "others"))]
        with self._database.tenant(tenant) as session:
            merged = graph.merge(session, tenant, kept, {fold_name(one): one for one in named})
        if merged is None:
            raise NotFound("there is no entity of that name to keep")
        return merged


def relations(value: object, where: str, cleaner: Cleaner) -> tuple[Relation, ...]:
    """At most MAX_RELATIONS relations, each between two entities."""
    if value == ():
        return ()  # almost every memory
    return tuple(_relation(item, f"{where}[{number}]", cleaner) for number, item in enumerate(_listed(value, where)))


def relation_of(given: object, where: str) -> Relation:
    """The relation that parsed JSON describes: an object of source, target and, if wanted, type and the others."""
    if isinstance(given, Relation):
        return given
    if not isinstance(given, Mapping) or not given.keys() <= _KEYS or not given.keys() >= {"source", "target"}:
        raise Refused(f"a relation takes source and target, and of {', '.join(sorted(_KEYS))} no other", where=where)
    return Relation(**{key: value for key, value in given.items() if value is not None})


def entity(value: object, where: str, cleaner: Cleaner) -> str:
    """The name of an entity: as an identifier, without blanks at its ends."""
    name = str(rules.identifier(value, where, cleaner)).strip()
    if len(fold_name(name).encode()) > rules.MAX_NAME_BYTES:
        raise Refused(f"{where} takes more than {rules.MAX_NAME_BYTES:,} bytes once folded", where=where)
    return name


def kind(value: object, where: str, cleaner: Cleaner) -> str:
    """The type of a relation or an entity."""
    named = str(rules.identifier(value, where, cleaner)).strip()
    if len(named.encode()) > MAX_TYPE_BYTES:
        raise Refused(f"{where} takes more than {MAX_TYPE_BYTES:,} bytes", where=where)
    return named


def _relation(item: object, where: str, cleaner: Cleaner) -> Relation:
    if not isinstance(item, Relation):
        raise Refused(f"{where} must be a relation", where=where)
    source = entity(item.source, f"{where}.source", cleaner)
    target = entity(item.target, f"{where}.target", cleaner)
    if fold_name(source) == fold_name(target):
        raise Refused(f"{where} leads from an entity to itself", where=where)
    return Relation(
        source=source,
        target=target,
        type=kind(item.type, f"{where}.type", cleaner),
        weight=_weight(item.weight, f"{where}.weight"),
        source_type=rules.optional(kind)(item.source_type, f"{where}.source_type", cleaner),
        target_type=rules.optional(kind)(item.target_type, f"{where}.target_type", cleaner),
    )


def _weight(value: object, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Refused(f"{where} must be a number", where=where)
    if not 0 < value <= MAX_WEIGHT:  # NaN is not within either
        raise Refused(f"{where} must be above 0 and at most {MAX_WEIGHT:,.0f}", where=where)
    return float(value)


def _named(item: object, where: str, cleaner: Cleaner) -> Named:
    if not isinstance(item, Named):
        raise Refused(f"{where} must name an entity", where=where)
    return Named(name=entity(item.name, where, cleaner), type=rules.optional(kind)(item.type, f"{where}.type", cleaner))


def _listed(value: object, where: str) -> Sequence[object]:
    if isinstance(value, str | bytes | bytearray) or not isinstance(value, Sequence):
        raise Refused(f"{where} must be a list", where=where)
    if len(value) > MAX_RELATIONS:
        raise Refused(f"{where} holds more than {MAX_RELATIONS}", where=where)
    return value
