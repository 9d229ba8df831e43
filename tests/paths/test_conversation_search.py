"""What conversations add to scores: against a plain model of it, in sessions of every size, whatever else is on."""

from __future__ import annotations

import uuid
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.errors import Unavailable
from core.model.memory import Draft
from core.model.query import Answer, Filters
from core.model.ranking import CONVERSATIONS, Ranking
from core.read.reader import Reader
from tests.batch.conftest import Parts

WORDS = replace(CONVERSATIONS, vector=0)
ALONE = replace(WORDS, neighbours=0, session=0, speaker=0)
NEAR = replace(ALONE, neighbours=0.5)
ONCE = datetime(2026, 1, 1, tzinfo=UTC)


def search(reader: Reader, text: str, ranking: Ranking, tenant: str = "t", limit: int = 200) -> Answer:
    return reader.search(tenant, text, limit, Filters(), ranking=ranking)


def scores(answer: Answer) -> dict[str, float]:
    return {one.memory.id: one.score for one in answer.found}


TURNS = st.lists(
    st.tuples(st.sampled_from(["tea", "boat", "tea boat", "rain"]), st.sampled_from(["s1", "s2", None])),
    min_size=1,
    max_size=14,
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(turns=TURNS)
def test_neighbours_score_as_a_plain_model_says(
    parts: Parts, reader: Reader, turns: list[tuple[str, str | None]]
) -> None:
    tenant = uuid.uuid4().hex
    drafts = [Draft(id=f"m{number}", content=text, session=talk) for number, (text, talk) in enumerate(turns)]
    list(parts.writer.write_many(tenant, drafts))
    plain = scores(search(reader, "tea", ALONE, tenant))
    expected = dict(plain)
    for talk in ("s1", "s2"):
        members = [f"m{number}" for number, (_, of) in enumerate(turns) if of == talk]
        for at, name in enumerate(members):
            beside = [(abs(at - other), members[other]) for other in range(len(members)) if 0 < abs(at - other) <= 2]
            lent = 0.5 * sum(plain.get(one, 0.0) / distance for distance, one in beside)
            if lent or name in plain:
                expected[name] = plain.get(name, 0.0) + lent
    talked = [f"m{number}" for number, (_, talk) in enumerate(turns) if talk is not None]
    best, most = (max((kind.get(one, 0.0) for one in talked), default=0.0) for kind in (plain, expected))
    for name in talked:
        if name in expected and 0 < best < most:
            expected[name] *= best / most
    assert scores(search(reader, "tea", NEAR, tenant)) == pytest.approx(expected)


def test_a_session_of_one_turn_scores_as_if_it_stood_alone(parts: Parts, reader: Reader) -> None:
    parts.writer.write("t", Draft(id="one", content="green tea", session="s"))
    parts.writer.write("t", Draft(id="other", content="green boat"))
    near = search(reader, "green tea", NEAR)
    assert scores(near) == scores(search(reader, "green tea", ALONE))
    assert {one.parts.neighbours for one in near.found} == {0.0}


def test_a_session_of_ten_thousand_turns_does_not_win_by_its_length(parts: Parts, reader: Reader) -> None:
    long = [
        Draft(id=f"l{n}", content=f"rain and wind {n}" if n % 500 else "green tea", session="long")
        for n in range(10_000)
    ]
    short = [Draft(id=f"s{n}", content=text, session="short") for n, text in enumerate(["green tea", "with milk"])]
    list(parts.writer.write_many("t", [*long, *short]))
    answer = search(reader, "green tea with milk", WORDS, limit=5)
    assert answer.found[0].memory.session == "short"
    near = reader.search("t", "green tea", 1, Filters(session="long"), ranking=WORDS, around=2)
    assert len(near.passages[0].memories) <= 5


def test_turns_of_one_moment_keep_an_order_of_their_own(parts: Parts, reader: Reader) -> None:
    list(
        parts.writer.write_many(
            "t", [Draft(id=f"m{n}", content=f"word{n}", session="s", created_at=ONCE) for n in (3, 1, 2, 0)]
        )
    )
    seen = [
        [
            memory.id
            for memory in reader.search("t", "word1", 1, Filters(), ranking=ALONE, around=5).passages[0].memories
        ]
        for _ in range(3)
    ]
    assert seen[0] == seen[1] == seen[2] == ["m3", "m1", "m2", "m0"]


def test_another_tenants_session_of_the_same_name_lends_nothing(parts: Parts, reader: Reader) -> None:
    list(parts.writer.write_many("t", [Draft(id="a", content="green tea", session="s")]))
    before = scores(search(reader, "green tea", WORDS))
    list(parts.writer.write_many("other", [Draft(id=f"o{n}", content="green tea", session="s") for n in range(5)]))
    assert scores(search(reader, "green tea", WORDS)) == before


@pytest.mark.parametrize("dead", ["vector", "keyword"])
def test_with_either_leg_away_neighbours_still_enter(parts: Parts, reader: Reader, dead: str) -> None:
    turns = ["green tea", "yes, in May", "nothing"]
    list(parts.writer.write_many("t", [Draft(id=f"m{n}", content=text, session="s") for n, text in enumerate(turns)]))
    parts.drain()
    ranking = CONVERSATIONS
    if dead == "vector":

        def refuse(texts: object) -> None:
            raise Unavailable("the model is out of reach")

        parts.embedder.before = refuse
    else:
        ranking = replace(CONVERSATIONS, keyword=0)
    answer = search(reader, "green tea", ranking, limit=3)
    assert {one.memory.id for one in answer.found} == {"m0", "m1", "m2"}
    assert all(one.parts.neighbours > 0 for one in answer.found if one.memory.id == "m1")


def test_decay_and_diversity_work_on_top(parts: Parts, reader: Reader) -> None:
    old, new = ONCE - timedelta(days=900), ONCE
    drafts = [
        Draft(id=f"{name}{n}", content=f"green tea {n}", session=name, created_at=when, type="turn")
        for name, when in (("old", old), ("new", new))
        for n in range(3)
    ]
    list(parts.writer.write_many("t", drafts))
    parts.drain()
    ranking = replace(CONVERSATIONS, mmr=0.7, decay_half_life=timedelta(days=30))
    answer = search(reader, "green tea", ranking, limit=6)
    assert {one.memory.id for one in answer.found} == {draft.id for draft in drafts}
    by_id = {one.memory.id: one for one in answer.found}
    assert by_id["old1"].parts.decay < by_id["new1"].parts.decay
    assert by_id["old1"].score < by_id["new1"].score


def test_a_neighbour_deleted_while_it_is_searched_for_is_not_answered(
    parts: Parts, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns = ["green tea", "yes, in May", "nothing"]
    list(parts.writer.write_many("t", [Draft(id=f"m{n}", content=text, session="s") for n, text in enumerate(turns)]))
    found = reader._search._ranked

    def ranked(*given: object) -> object:
        made = found(*given)  # type: ignore[arg-type]
        parts.writer.delete("t", "m1")
        return made

    monkeypatch.setattr(reader._search, "_ranked", ranked)
    assert {one.memory.id for one in search(reader, "green tea", WORDS).found} == {"m0", "m2"}
