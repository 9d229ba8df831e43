"""A search with the graph: what speaks of the same entities as the best hits comes in, judged as any hit is."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from core.errors import Unavailable
from core.model.graph import Relation
from core.model.memory import Draft
from core.model.query import Answer, Filters
from core.model.ranking import CONVERSATIONS, Ranking
from core.read import search as searching
from core.read.reader import Reader
from tests.batch.conftest import Parts

OFF = replace(CONVERSATIONS, vector=0, neighbours=0, session=0, speaker=0)
ON = replace(OFF, graph=0.5)
ANA = Relation(source="Ana", target="tea")


def search(
    reader: Reader, ranking: Ranking = ON, filters: Filters | None = None, tenant: str = "t", limit: int = 10
) -> Answer:
    return reader.search(tenant, "what does she drink", limit, filters or Filters(), ranking=ranking)


def scores(answer: Answer) -> dict[str, float]:
    return {one.memory.id: one.score for one in answer.found}


def write(parts: Parts, name: str, content: str, *relations: Relation, tenant: str = "t", **more: object) -> None:
    parts.writer.write(tenant, Draft(id=name, content=content, relations=relations, **more))  # type: ignore[arg-type]


@pytest.fixture
def filled(parts: Parts) -> None:
    write(parts, "hit", "she likes to drink it", ANA)
    write(parts, "same", "grown in Uji", Relation(source="tea", target="Uji"))
    write(parts, "apart", "grown elsewhere", Relation(source="coffee", target="Lima"))
    write(parts, "bare", "nothing to do with it")


@pytest.mark.usefixtures("filled")
def test_what_speaks_of_the_same_entities_comes_in_and_its_part_says_graph(reader: Reader) -> None:
    assert set(scores(search(reader, OFF))) == {"hit"}
    answer = search(reader)
    assert list(scores(answer)) == ["hit", "same"]
    came = answer.found[1]
    # `tea` is named by two memories: what the hit has to give is shared among them.
    assert came.parts.graph == pytest.approx(0.5 * answer.found[0].score / 2**0.5)
    assert (came.parts.total, came.parts.bm25) == (came.parts.graph, None)
    assert answer.found[0].parts.graph == 0


@pytest.mark.usefixtures("filled")
def test_off_asks_the_graph_nothing(reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("the graph was asked")

    monkeypatch.setattr(searching, "with_graph", refuse)
    assert set(scores(search(reader, OFF))) == {"hit"}


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize("way", ["deleted", "expired", "filtered", "withdrawn"])
def test_what_comes_in_is_checked_as_any_hit_is(parts: Parts, reader: Reader, way: str) -> None:
    filters = Filters()
    if way == "deleted":
        parts.writer.delete("t", "same")
    elif way == "expired":
        ended = datetime.now(UTC) - timedelta(seconds=1)
        write(parts, "same", "grown in Uji", Relation(source="tea", target="Uji"), expires_at=ended)
    elif way == "filtered":
        write(parts, "hit", "she likes to drink it", ANA, project="p")
        filters = Filters(project="p")
    else:
        write(parts, "same", "grown in Uji")
    assert list(scores(search(reader, filters=filters))) == ["hit"]


def test_another_tenants_memories_never_come_in(parts: Parts, reader: Reader) -> None:
    write(parts, "hit", "she likes to drink it", ANA)
    write(parts, "theirs", "grown in Uji", ANA, tenant="other")
    assert list(scores(search(reader))) == ["hit"]


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize("dead", ["vector", "keyword"])
def test_with_either_leg_away_the_graph_still_brings_its_own(parts: Parts, reader: Reader, dead: str) -> None:
    parts.drain()
    ranking = replace(CONVERSATIONS, graph=0.5)
    if dead == "vector":

        def refuse(texts: object) -> None:
            raise Unavailable("the model is out of reach")

        parts.embedder.before = refuse
    else:
        ranking = replace(ranking, keyword=0)
    answer = search(reader, ranking)
    assert any(one.parts.graph > 0 for one in answer.found)
    assert (answer.degraded is not None) == (dead == "vector")


def test_a_hub_lends_little_and_the_number_of_those_that_come_in_is_bounded(parts: Parts, reader: Reader) -> None:
    write(parts, "hit", "she likes to drink it", ANA, Relation(source="Ana", target="hub"))
    crowd = [
        Draft(id=f"c{n:03}", content=f"crowd {n}", relations=[Relation(source=f"x{n}", target="hub")])
        for n in range(200)
    ]
    list(parts.writer.write_many("t", crowd))
    write(parts, "same", "grown in Uji", Relation(source="tea", target="Uji"))
    answer = search(reader, limit=200)
    assert 2 < len(answer.found) <= 51
    assert [one.memory.id for one in answer.found[:2]] == ["hit", "same"]
    assert scores(answer) == scores(search(reader, limit=200))


def test_decay_diversity_and_conversations_work_beside_it(parts: Parts, reader: Reader) -> None:
    write(parts, "hit", "she likes to drink it", ANA, session="s", speaker="Ana")
    write(parts, "next", "yes, in May", session="s")
    write(parts, "same", "grown in Uji", ANA)
    parts.drain()
    ranking = replace(CONVERSATIONS, graph=0.5, mmr=0.7, decay_half_life=timedelta(days=30))
    by_id = {one.memory.id: one for one in search(reader, ranking).found}
    assert set(by_id) == {"hit", "next", "same"}
    assert by_id["same"].parts.graph > 0
    assert by_id["next"].parts.graph == 0
    assert all(one.score == pytest.approx(one.parts.total) for one in by_id.values())
