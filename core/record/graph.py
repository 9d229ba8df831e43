"""The knowledge graph in the record: put with the memories that support it, read while they live, gone with them."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from core.model.graph import BY_HAND, Entity, Link, Named, Reach, Relation, Support, fold_name
from core.model.memory import Draft
from core.record.database import Row, Session
from core.record.queries import query

# So many rows of an entity's relations are followed in each direction: of the one asked for, of others near it, and of
# those on the way to another.
MOST_OF_FIRST, MOST_FOLLOWED, MOST_ON_THE_WAY = 10_000, 500, 2_000
# How many entities a search for paths looks at from its end, and how many paths grow at once.
BALL = 2000
OPEN_PATHS = 500
MOST_NAMES = 100
_ID = 36  # characters of a UUID
Pair = tuple[uuid.UUID, uuid.UUID]


@dataclass(frozen=True, slots=True)
class Reached:
    """An entity that was reached in so many steps, the last from the entity `via`."""

    entity: Entity
    distance: int
    via: uuid.UUID


@dataclass(frozen=True, slots=True)
class Step:
    """The link from one entity to another, and whether it leads `forwards` or was followed against its direction."""

    link: Link
    forwards: bool

    @property
    def names(self) -> tuple[str, str]:
        """The two entities in the order of the step."""
        return (self.link.source, self.link.target) if self.forwards else (self.link.target, self.link.source)


@dataclass(frozen=True, slots=True)
class _Supported:
    """Relations with the memory each is supported by, and the entities they name."""

    relations: Sequence[tuple[str, Relation]]
    entities: Sequence[Named] = ()


def put(session: Session, tenant: str, entities: Sequence[Named], relations: Sequence[Relation]) -> None:
    """State entities and relations by hand."""
    stated = _Supported([(BY_HAND, one) for one in relations], entities)
    _put(session, tenant, stated, by_hand=True)


def support(session: Session, tenant: str, memory_id: str, relations: Sequence[Relation]) -> None:
    """Add relations that a memory supports, which `supporter` holds."""
    _put(session, tenant, _Supported([(memory_id, one) for one in relations]))


def put_written(
    session: Session, tenant: str, drafts: Mapping[str, Draft], replaced: Sequence[str], restated: Sequence[str]
) -> None:
    """Make what was just written support what its drafts say.

    `replaced` changed, and support nothing else from here on; `restated` did not, and lose only what their last
    write told and this one does not.
    """
    stated = [(memory_id, one) for memory_id, draft in drafts.items() for one in draft.relations]
    if stated or replaced or restated:
        _put(session, tenant, _Supported(stated), with_write=True, replaced=replaced, restated=restated)


def supporter(session: Session, tenant: str, memory_id: str) -> bool | None:
    """Hold a living memory until the transaction ends; whether it is sealed. None: it is not there."""
    row = session.execute(query("graph_supporter"), {"tenant": tenant, "id": memory_id}).fetchone()
    return None if row is None else bool(row["sealed"])


def withdraw(session: Session, tenant: str, relations: Sequence[Relation], supported_by: str) -> int:
    """Take back what a memory (BY_HAND: a caller) supports; how many relations."""
    values = {
        "tenant": tenant,
        "froms": [fold_name(one.source) for one in relations],
        "kinds": [one.type for one in relations],
        "tos": [fold_name(one.target) for one in relations],
        "supporter": supported_by,
    }
    row = session.execute(query("graph_withdraw"), values).fetchone()
    return 0 if row is None else int(row["withdrawn"])


def disown(session: Session, tenant: str, key: str) -> bool:
    """Take back what was stated by hand of an entity by its folded name; whether anything was."""
    row = session.execute(query("graph_disown"), {"tenant": tenant, "key": key}).fetchone()
    return row is not None and bool(row["stated"])


def merge(session: Session, tenant: str, keep: str, others: Mapping[str, str]) -> int | None:
    """Make entities one with `keep`; names by folded name. How many became part of it, None: it is not there."""
    values = {"tenant": tenant, "keep": keep, "keys": list(others), "names": list(others.values())}
    row = session.execute(query("graph_merge"), values).fetchone()
    return None if row is None else row["merged"]


def forget(session: Session, tenant: str, memory_ids: Sequence[str]) -> int:
    """Forget what memories support that are deleted or gone; how many rows went."""
    if not memory_ids:
        return 0
    row = session.execute(query("graph_forget"), {"tenant": tenant, "ids": list(memory_ids)}).fetchone()
    return 0 if row is None else int(row["forgotten"])


def forget_dead(session: Session, tenant: str, limit: int) -> int:
    """Forget what up to `limit` deleted memories support; how many rows went."""
    rows = session.execute(query("graph_dead"), {"tenant": tenant, "limit": limit}).fetchall()
    return forget(session, tenant, [row["id"] for row in rows])


def erase(session: Session, tenant: str, limit: int) -> int:
    """Remove a batch of what no living memory supports, also what was stated by hand; how much went."""
    session.execute(query("graph_hold"), {"tenant": tenant})
    gone = 0
    for name in ("graph_erase", "graph_erase_entities"):
        row = session.execute(query(name), {"tenant": tenant, "limit": limit}).fetchone()
        gone += 0 if row is None else int(row["gone"])
    return gone


def held(session: Session, tenant: str, memory_ids: Sequence[str] | None) -> int:
    """How much the graph holds of memories that are gone; None: of whatever no living memory supports."""
    name = "graph_look_all" if memory_ids is None else "graph_look"
    row = session.execute(query(name), {"tenant": tenant, "ids": memory_ids}).fetchone()
    return 0 if row is None else int(row["held"])


def entities_of(session: Session, tenant: str, keys: Sequence[str]) -> dict[str, Entity]:
    """Entities by folded names they are known by, of those that are seen."""
    rows = session.execute(query("graph_resolve"), {"tenant": tenant, "keys": list(keys)}).fetchall()
    return {row["asked"]: _entity(row) for row in rows}


def names_of(session: Session, tenant: str, entity: uuid.UUID) -> tuple[str, ...]:
    """Names an entity is known by, MOST_NAMES of them."""
    values = {"tenant": tenant, "entity": entity, "limit": MOST_NAMES}
    return tuple(row["name"] for row in session.execute(query("graph_names"), values).fetchall())


def page(session: Session, tenant: str, kind: str | None, after: str, limit: int) -> list[Entity]:
    """Up to `limit` entities (of a type) that are seen, by name behind the folded name `after`."""
    values = {"tenant": tenant, "type": kind, "after": after, "limit": limit}
    return [_entity(row) for row in session.execute(query("graph_entities"), values).fetchall()]


def neighbours(session: Session, tenant: str, entity: uuid.UUID, reach: Reach) -> list[Reached]:
    """Entities within reach, the nearest first."""
    bounds = {"depth": reach.depth, "first": MOST_OF_FIRST, "most": MOST_FOLLOWED}
    values = {"tenant": tenant, "entity": entity, **bounds, **_reach(reach)}
    rows = session.execute(query("graph_neighbours"), values).fetchall()
    return [Reached(_entity(row), int(row["distance"]), row["via"]) for row in rows]


def paths(session: Session, tenant: str, begin: uuid.UUID, end: uuid.UUID, reach: Reach) -> list[tuple[uuid.UUID, ...]]:
    """Paths within reach as entities in a row, the shortest first."""
    bounds = {"depth": reach.depth, "ball": BALL, "open": OPEN_PATHS, "most": MOST_ON_THE_WAY}
    values = {"tenant": tenant, "begin": begin, "end": end, **bounds, **_reach(reach)}
    rows = session.execute(query("graph_paths"), values).fetchall()
    return [
        tuple(uuid.UUID(row["path"][start : start + _ID]) for start in range(0, len(row["path"]), _ID)) for row in rows
    ]


def steps(session: Session, tenant: str, pairs: Sequence[Pair], reach: Reach) -> dict[Pair, Step]:
    """The strongest living relation of each pair of entities, of those that have one."""
    froms, tos = [one for one, _ in pairs], [other for _, other in pairs]
    values = {"tenant": tenant, "froms": froms, "tos": tos, **_reach(reach)}
    rows = session.execute(query("graph_steps"), values).fetchall()
    return {
        pairs[row["number"] - 1]: Step(
            Link(
                source=row["source"],
                type=row["type"],
                target=row["target"],
                weight=float(row["weight"]),
                memories=int(row["memories"]),
            ),
            row["forwards"],
        )
        for row in rows
    }


def support_of(session: Session, tenant: str, ends: Pair, kind: str, after: str | None, limit: int) -> list[Support]:
    """What a relation between two entities rests on now, by memory id behind `after`."""
    values = {"tenant": tenant, "source": ends[0], "target": ends[1], "type": kind, "after": after, "limit": limit}
    rows = session.execute(query("graph_support"), values).fetchall()
    return [Support(memory_id=row["memory_id"] or None, weight=float(row["weight"])) for row in rows]


def _put(
    session: Session,
    tenant: str,
    stated: _Supported,
    *,
    by_hand: bool = False,
    with_write: bool = False,
    replaced: Sequence[str] = (),
    restated: Sequence[str] = (),
) -> None:
    firm = {fold_name(one.name) for one in stated.entities}
    named = [*stated.entities]
    for _, one in stated.relations:
        named += [Named(name=one.source, type=one.source_type), Named(name=one.target, type=one.target_type)]
    names: dict[str, str] = {}
    types: dict[str, str | None] = {}
    for entity in named:
        key = fold_name(entity.name)
        names.setdefault(key, entity.name)
        types[key] = types.get(key) or entity.type
    places = {key: number for number, key in enumerate(names, start=1)}
    values = {
        "tenant": tenant,
        "keys": list(names),
        "names": list(names.values()),
        "types": list(types.values()),
        "firm": [key in firm for key in names],
        "by_hand": by_hand,
        "froms": [places[fold_name(one.source)] for _, one in stated.relations],
        "kinds": [one.type for _, one in stated.relations],
        "tos": [places[fold_name(one.target)] for _, one in stated.relations],
        "weights": [one.weight for _, one in stated.relations],
        "supporters": [memory_id for memory_id, _ in stated.relations],
        "with_write": with_write,
        "replaced": list(replaced),
        "restated": list(restated),
    }
    session.execute(query("graph_put"), values)


def _reach(reach: Reach) -> dict[str, object]:
    return {
        "limit": reach.limit,
        "types": None if reach.types is None else list(reach.types),
        "outward": reach.direction != "in",
        "inward": reach.direction != "out",
    }


def _entity(row: Row) -> Entity:
    return Entity(id=row["id"], name=row["name"], type=row["type"], stated=row["stated"], created_at=row["created_at"])
