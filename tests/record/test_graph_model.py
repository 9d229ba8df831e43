"""The graph beside a plain model of it: whatever is written, changed, deleted, merged and reaped in whatever order."""

from __future__ import annotations

import uuid
from collections import Counter, defaultdict
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from core.engine.graph import Graph
from core.errors import NotFound
from core.model.graph import Named, Relation
from core.model.memory import Draft
from core.model.space import EmbeddingSpace
from core.record import graph as record
from core.record.database import Database
from core.write.writer import Writer

NAMES = ["Ada", "Byron", "Cecil", "Dora", "Emil"]
NAME = st.sampled_from(NAMES)
PAIRS = st.lists(st.tuples(NAME, NAME, st.sampled_from(["knows", "likes"])).filter(lambda p: p[0] != p[1]), max_size=4)
MEMORY = st.sampled_from(["m1", "m2", "m3"])
HAND = ""

Triple = tuple[str, str, str]


def relations(pairs: list[tuple[str, str, str]]) -> list[Relation]:
    return [Relation(source=one, target=other, type=kind) for one, other, kind in pairs]


class Model(RuleBasedStateMachine):
    """`support`: weights by memory and relation, `told` which of them came with a write; `entity` by name.

    An entity bears the name it was first given.
    """

    database: Database

    def __init__(self) -> None:
        super().__init__()
        self.tenant = uuid.uuid4().hex
        space = EmbeddingSpace(provider="test", model="four", dimensions=4)
        self.writer = Writer(self.database, space, lambda: "new")
        self.graph = Graph(self.database)
        self.support: dict[str, dict[Triple, float]] = defaultdict(dict)
        self.told: dict[str, set[Triple]] = defaultdict(set)
        self.texts: dict[str, str] = {}
        self.entity: dict[str, str] = {}
        self.stated: set[str] = set()

    def known(self, name: str) -> str:
        return self.entity.setdefault(name, name)

    def as_triples(self, pairs: list[tuple[str, str, str]]) -> Counter[Triple]:
        found = Counter((self.known(one), self.known(other), kind) for one, other, kind in pairs)
        return Counter({triple: count for triple, count in found.items() if triple[0] != triple[1]})

    def prune(self) -> None:
        """Names lead on while their entity is named by a relation or stated."""
        named = {end for one in self.support.values() for triple in one for end in triple[:2]} | self.stated
        self.entity = {name: entity for name, entity in self.entity.items() if entity in named}

    def living(self) -> dict[Triple, float]:
        found: dict[Triple, float] = defaultdict(float)
        for memory, supported in self.support.items():
            for triple, weight in supported.items() if memory == HAND or memory in self.texts else ():
                found[triple] += weight
        return dict(found)

    @rule(memory=MEMORY, text=st.sampled_from(["one", "two"]), pairs=PAIRS, bulk=st.booleans())
    def write(self, memory: str, text: str, pairs: list[Any], bulk: bool) -> None:
        draft = Draft(id=memory, content=text, relations=relations(pairs))
        if bulk:
            list(self.writer.write_many(self.tenant, [draft]))
        else:
            self.writer.write(self.tenant, draft)
        said = self.as_triples(pairs)
        unchanged = self.texts.get(memory) == text
        before, told = self.support[memory], self.told[memory]
        added = {triple: weight for triple, weight in before.items() if unchanged and triple not in told}
        self.support[memory] = {**added, **{triple: float(count) for triple, count in said.items()}}
        self.told[memory] = set(said)
        self.texts[memory] = text
        self.prune()

    @rule(memory=MEMORY, pairs=PAIRS)
    def relate(self, memory: str, pairs: list[Any]) -> None:
        if memory not in self.texts:
            with pytest.raises(NotFound):
                self.graph.relate(self.tenant, memory, relations(pairs))
            return
        self.graph.relate(self.tenant, memory, relations(pairs))
        self.support[memory] |= {triple: float(count) for triple, count in self.as_triples(pairs).items()}
        self.prune()

    @rule(memory=MEMORY)
    def delete(self, memory: str) -> None:
        assert self.writer.delete(self.tenant, memory) == (memory in self.texts)
        self.texts.pop(memory, None)

    @rule()
    def reap(self) -> None:
        with self.database.tenant(self.tenant) as session:
            record.forget_dead(session, self.tenant, 100)
        for memory in set(self.support) - set(self.texts) - {HAND}:
            del self.support[memory]
            self.told.pop(memory, None)
        self.prune()

    @rule(name=NAME, pairs=PAIRS)
    def put(self, name: str, pairs: list[Any]) -> None:
        self.graph.put(self.tenant, [Named(name=name)], relations(pairs))
        self.stated.add(self.known(name))
        self.support[HAND] |= {triple: float(count) for triple, count in self.as_triples(pairs).items()}
        self.prune()

    @rule(memory=st.sampled_from([HAND, "m1"]), pairs=PAIRS)
    def withdraw(self, memory: str, pairs: list[Any]) -> None:
        asked = {
            (self.entity[one], self.entity[other], kind)
            for one, other, kind in pairs
            if one in self.entity and other in self.entity
        }
        gone = asked & self.support[memory].keys()
        assert self.graph.withdraw(self.tenant, relations(pairs), memory or None) == len(gone)
        for triple in gone:
            del self.support[memory][triple]
        self.told[memory] -= gone
        self.prune()

    @rule(name=NAME)
    def forget(self, name: str) -> None:
        entity = self.entity.get(name)
        mine = {triple for triple in self.support[HAND] if entity in triple[:2]}
        assert self.graph.forget(self.tenant, name) == bool(entity in self.stated or mine)
        self.stated.discard(entity or "")
        for triple in mine:
            del self.support[HAND][triple]
        self.prune()

    @rule(keep=NAME, others=st.lists(NAME, min_size=1, max_size=3))
    def merge(self, keep: str, others: list[str]) -> None:
        if keep not in self.entity:
            with pytest.raises(NotFound):
                self.graph.merge(self.tenant, keep, others)
            return
        kept = self.entity[keep]
        gone = {self.entity[one] for one in others if one in self.entity} - {kept}
        assert self.graph.merge(self.tenant, keep, others) == len(gone)
        self.entity = {name: kept if entity in gone else entity for name, entity in self.entity.items()}
        self.entity |= {one: kept for one in others if one not in self.entity}
        self.stated = (self.stated - gone) | {kept}

        def moved(triple: Triple) -> Triple:
            one, other, kind = triple
            return kept if one in gone else one, kept if other in gone else other, kind

        for memory, supported in self.support.items():
            made: dict[Triple, float] = defaultdict(float)
            for triple, weight in supported.items():
                if moved(triple)[0] != moved(triple)[1]:
                    made[moved(triple)] += weight
            self.support[memory] = dict(made)
            self.told[memory] = {moved(triple) for triple in self.told[memory]} & made.keys()
        self.prune()

    @invariant()
    def what_is_seen_is_what_is_alive(self) -> None:
        living = self.living()
        seen = {end for triple in living for end in triple[:2]} | self.stated
        assert {one.name for one in self.graph.entities(self.tenant)} == seen
        for entity in seen:
            near = self.graph.neighbours(self.tenant, entity, depth=1)
            assert {one.entity.name: one.link.weight for one in near} == self.strongest(living, entity)
            reached = {one.entity.name: one.distance for one in self.graph.neighbours(self.tenant, entity, depth=4)}
            assert reached == self.distances(living, entity)

    @invariant()
    def no_entity_is_left_that_nothing_names(self) -> None:
        with self.database.tenant(self.tenant) as session:
            rows = session.execute("SELECT name, entity FROM entity_name").fetchall()
            assert session.execute("SELECT FROM entity").rowcount == len(set(self.entity.values()))
        assert {row["name"] for row in rows} == set(self.entity)
        assert len({row["entity"] for row in rows}) == len(set(self.entity.values()))

    @staticmethod
    def strongest(living: dict[Triple, float], entity: str) -> dict[str, float]:
        best: dict[str, float] = defaultdict(float)
        for (one, other, _), weight in living.items():
            if entity in (one, other):
                end = other if one == entity else one
                best[end] = max(best[end], weight)
        return dict(best)

    @staticmethod
    def distances(living: dict[Triple, float], start: str) -> dict[str, int]:
        found, frontier, steps = {start: 0}, {start}, 0
        while frontier and steps < 4:
            steps += 1
            reached = {end for one in living for end in one[:2] if not frontier.isdisjoint(one[:2])}
            frontier = reached - found.keys()
            found |= dict.fromkeys(frontier, steps)
        del found[start]
        return found


def test_the_graph_is_as_a_plain_model_says(database: Database) -> None:
    class OnThisDatabase(Model):
        pass

    OnThisDatabase.database = database
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        OnThisDatabase,
        settings=settings(
            max_examples=15, stateful_step_count=12, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
