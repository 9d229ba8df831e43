"""The search as a whole: both legs, what conversations add, and what happens when something is dead."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.adapters.no_cache import NoCache
from core.adapters.qdrant_edge import EdgeIndex
from core.errors import Transient, Unavailable
from core.model.memory import Draft
from core.model.query import Answer, Filters
from core.model.ranking import CONVERSATIONS, PLAIN, Ranking
from core.read.health import health_of
from core.read.reader import Reader
from core.record.database import Database, Limits
from tests.batch.conftest import Parts
from tests.contract.fake_cache import FakeCache

ALONE = replace(CONVERSATIONS, neighbours=0, session=0, speaker=0)
PAST = datetime(2020, 1, 1, tzinfo=UTC)


def ids(answer: Answer) -> list[str]:
    return [one.memory.id for one in answer.found]


def scores(answer: Answer) -> dict[str, float]:
    return {one.memory.id: one.score for one in answer.found}


FOUND_BY_WORDS = [
    ("what kind of tea does Ana usually like to drink?", "Ana prefers green tea"),
    ("予算", "昨日は会議室で予算を話した"),
    ("GitHub备份失败", "昨天GitHub备份失败了"),
    ("备份失败", "GitHub备份失败"),
    ("cafe", "the CAFÉ on the corner"),
    ("ﾃﾞｰﾀ", "データを消した"),
    ("running", "she runs every day"),
    ("What did An say?", "I met An at the station"),
]


@pytest.mark.parametrize(("asked", "kept"), FOUND_BY_WORDS)
def test_words_are_found_before_anything_is_indexed(parts: Parts, reader: Reader, asked: str, kept: str) -> None:
    parts.writer.write("t", Draft(id="it", content=kept))
    parts.writer.write("t", Draft(id="other", content="nothing of the kind"))
    answer = reader.search("t", asked, 1, Filters())
    assert ids(answer) == ["it"]
    assert answer.degraded == "nothing has been indexed yet"


@pytest.mark.parametrize("asked", ["foo:bar & (", '"open', "'", "C:\\tmp\\*", "https://x.y/?a=b&c", "word " * 2000])
def test_any_text_is_a_legal_query(parts: Parts, reader: Reader, asked: str) -> None:
    parts.writer.write("t", Draft(id="it", content="foo bar"))
    assert isinstance(reader.search("t", asked, 5, Filters()), Answer)


def test_a_hit_by_words_alone_is_kept_far_below_the_threshold(parts: Parts, reader: Reader) -> None:
    list(parts.writer.write_many("t", [Draft(id=f"m{n}", content=f"quite different {n}") for n in range(60)]))
    parts.drain()
    parts.writer.write("t", Draft(id="word", content="zanzibar"))  # has no vector yet
    answer = reader.search("t", "zanzibar quite different", 80, Filters(), ranking=PLAIN)
    assert scores(answer)["word"] < PLAIN.threshold


def test_expired_records_above_leave_the_live_ones_findable(parts: Parts, reader: Reader) -> None:
    dead = [Draft(id=f"d{n}", content="green tea", expires_at=PAST) for n in range(61)]
    live = [Draft(id=f"live{n}", content="green tea and many other words") for n in range(2)]
    list(parts.writer.write_many("t", [*dead, *live]))
    for ranking in (CONVERSATIONS, replace(ALONE, vector=0)):
        assert sorted(ids(reader.search("t", "green tea", 5, Filters(), ranking=ranking))) == ["live0", "live1"]


def test_a_dead_embedder_leaves_an_answer_by_words_that_says_so(parts: Parts, reader: Reader) -> None:
    parts.writer.write("t", Draft(id="it", content="green tea"))
    parts.drain()

    def refuse(texts: object) -> None:
        raise Unavailable("the model is out of reach")

    parts.embedder.before = refuse
    answer = reader.search("t", "green tea", 5, Filters())
    assert ids(answer) == ["it"]
    assert answer.degraded == "the model is out of reach"
    assert {leg.name: leg.problem for leg in answer.legs} == {"vector": answer.degraded, "keyword": None}


def test_a_late_embedder_is_not_waited_for(parts: Parts) -> None:
    parts.writer.write("t", Draft(id="it", content="green tea"))
    parts.drain()
    parts.embedder.before = lambda texts: time.sleep(1)
    late = timedelta(milliseconds=200)
    reader = Reader(parts.database, parts.index, NoCache(), lambda space: parts.embedder, time.monotonic, deadline=late)
    answer = reader.search("t", "green tea", 5, Filters())
    reader.close()
    assert ids(answer) == ["it"]
    assert answer.degraded is not None
    assert "not done within" in answer.degraded


def test_a_dead_index_and_a_dead_cache_together_leave_an_answer(parts: Parts, tmp_path: Path) -> None:
    parts.writer.write("t", Draft(id="it", content="green tea"))
    (tmp_path / "in the way").write_text("")
    index = EdgeIndex(tmp_path / "in the way", wait=parts.outbox._lease)
    cache = FakeCache()
    cache.out_of_reach = True
    reader = Reader(parts.database, index, cache, lambda space: parts.embedder, time.monotonic)
    answer = reader.search("t", "green tea", 5, Filters())
    reader.close()
    assert ids(answer) == ["it"]
    assert answer.degraded


def test_without_the_record_there_is_no_answer(parts: Parts) -> None:
    gone = Database("postgresql://nobody@127.0.0.1:1/none", Limits(connect=timedelta(seconds=1)))
    gone.open()
    reader = Reader(gone, parts.index, NoCache(), lambda space: parts.embedder, time.monotonic)
    with pytest.raises(Transient):
        reader.search("t", "green tea", 5, Filters())
    gone.close()


def test_health_tells_which_store_is_out_of_reach(parts: Parts) -> None:
    gone = Database("postgresql://nobody@127.0.0.1:1/none", Limits(connect=timedelta(seconds=1)))
    gone.open()
    fine, broken = health_of(parts.database, parts.index), health_of(gone, parts.index)
    gone.close()
    assert (fine.answers, fine.problems) == (True, {})
    assert (broken.answers, set(broken.problems)) == (False, {"record"})


def test_a_kept_answer_is_used_until_anything_changes(parts: Parts) -> None:
    keep = timedelta(minutes=1)
    reader = Reader(
        parts.database, parts.index, FakeCache(), lambda space: parts.embedder, time.monotonic, keep_answers=keep
    )
    list(parts.writer.write_many("t", [Draft(id=name, content="green tea") for name in ("a", "b")]))
    parts.drain()
    first = reader.search("t", "green tea", 5, Filters())
    again = reader.search("t", "green tea", 5, Filters())
    assert (first.cached, again.cached) == (False, True)
    assert again.found == first.found
    parts.writer.delete("t", "a")
    assert ids(reader.search("t", "green tea", 5, Filters())) == ["b"]
    parts.writer.write("t", Draft(id="c", content="green tea"))
    assert sorted(ids(reader.search("t", "green tea", 5, Filters()))) == ["b", "c"]
    reader.close()


TURNS = ["Where did you go in May?", "To the lake with my sister", "Nice", "It rained", "Oh no"]


def talk(parts: Parts, tenant: str = "t") -> None:
    drafts = [
        Draft(id=f"s{n}", content=text, session="s", speaker=("Ana", "Will")[n % 2]) for n, text in enumerate(TURNS)
    ]
    list(parts.writer.write_many(tenant, [*drafts, Draft(id="alone", content="the month of May is warm")]))


def test_a_neighbour_no_leg_found_enters_and_is_explained(parts: Parts, reader: Reader) -> None:
    talk(parts)
    answer = reader.search("t", "May", 10, Filters(), ranking=replace(CONVERSATIONS, vector=0, speaker=0))
    found = {one.memory.id: one.parts for one in answer.found}
    assert set(found) == {"s0", "s1", "s2", "alone"}
    assert found["s1"].bm25 is None
    assert found["s1"].neighbours == pytest.approx(2 * found["s2"].neighbours)
    assert found["alone"].neighbours == found["alone"].session == 0


def test_what_stands_alone_scores_as_if_there_were_no_conversations(parts: Parts, reader: Reader) -> None:
    talk(parts)
    parts.drain()
    plain = reader.search("t", "warm May", 10, Filters(), ranking=ALONE)
    around = reader.search("t", "warm May", 10, Filters(), ranking=CONVERSATIONS)
    assert scores(around)["alone"] == scores(plain)["alone"]


@pytest.mark.parametrize("gone", ["deleted", "expired", "filtered", "archived", "foreign"])
def test_a_neighbour_that_may_not_be_seen_neither_appears_nor_lends(parts: Parts, reader: Reader, gone: str) -> None:
    talk(parts)
    talk(parts, "other")
    filters = Filters()
    if gone == "deleted":
        parts.writer.delete("t", "s0")
    elif gone == "filtered":
        parts.writer.write("t", Draft(id="s0", content=TURNS[0], session="s", position=0, role="tool"))
        list(
            parts.writer.write_many(
                "t",
                [Draft(id=f"s{n}", content=TURNS[n], session="s", position=n, role="user") for n in range(1, 5)],
            )
        )
        filters = Filters(role="user")
    elif gone == "expired":
        parts.writer.write("t", Draft(id="s0", content=TURNS[0], session="s", expires_at=PAST))
    elif gone == "archived":
        with parts.database.tenant("t") as session:
            session.execute("UPDATE memory SET tier = 'archive' WHERE id = 's0'")
    ranking = replace(CONVERSATIONS, vector=0, session=0, speaker=0)
    answer = reader.search("other" if gone == "foreign" else "t", "May", 10, filters, ranking=ranking)
    if gone == "foreign":
        assert {one.memory.tenant for one in answer.found} == {"other"}
    else:
        assert "s1" not in ids(answer)
        assert ("s0" in ids(answer)) == (gone == "archived")  # a stub is found by its words


def test_a_named_speaker_is_preferred_and_a_common_word_is_no_name(parts: Parts, reader: Reader) -> None:
    talk(parts)
    ranking = replace(CONVERSATIONS, vector=0, session=0, neighbours=0)
    named = reader.search("t", "Did Ana say it was nice or that it rained?", 10, Filters(), ranking=ranking)
    assert {one.memory.id: one.parts.speaker > 0 for one in named.found} == {"s2": True, "s3": False}
    common = reader.search("t", "Nice, it will have rained", 10, Filters(), ranking=ranking)
    assert {one.parts.speaker for one in common.found} == {0.0}


def test_passages_are_joined_in_order_each_turn_with_its_own_id(parts: Parts, reader: Reader) -> None:
    talk(parts)
    ranking = replace(ALONE, vector=0)
    answer = reader.search("t", "lake rained", 10, Filters(), ranking=ranking, around=1)
    (passage,) = answer.passages
    assert [memory.id for memory in passage.memories] == ["s0", "s1", "s2", "s3", "s4"]
    assert passage.hits == {"s1", "s3"}


def test_turns_written_out_of_order_stand_by_their_positions(parts: Parts, reader: Reader) -> None:
    for n in (3, 0, 4, 1, 2):
        parts.writer.write("t", Draft(id=f"s{n}", content=TURNS[n], session="s", position=n, created_at=PAST))
    answer = reader.search("t", "lake", 1, Filters(), ranking=replace(ALONE, vector=0), around=2)
    assert [memory.id for memory in answer.passages[0].memories] == ["s0", "s1", "s2", "s3"]


def test_the_same_query_twice_gives_the_same_order_with_everything_on(parts: Parts, reader: Reader) -> None:
    drafts = [Draft(id=f"m{n}", content=f"green tea {n % 3}", session=f"s{n % 4}", created_at=PAST) for n in range(40)]
    list(parts.writer.write_many("t", drafts))
    parts.drain()
    ranking = replace(CONVERSATIONS, mmr=0.7, decay_half_life=timedelta(days=30))
    answers = [ids(reader.search("t", "green tea 1", 20, Filters(), ranking=ranking)) for _ in range(3)]
    assert answers[0] == answers[1] == answers[2]
    assert len(set(answers[0])) == 20


OF = st.sampled_from
FILTERS = st.builds(
    Filters,
    scope=OF([None, None, "a"]),
    project=OF([None, None, "a"]),
    session=OF([None, None, "s1"]),
    role=OF([None, None, "user"]),
    type=OF([None, None, "fact"]),
    tags_any=OF([(), (), ("x",), ("x", "y")]),
    tags_all=OF([(), (), ("x", "y")]),
    labels=OF([{}, {}, {"k": "v"}]),
    tier=OF([None, None, "warm", "cold"]),
    min_importance=OF([None, None, 0.5]),
    created_from=OF([None, None, datetime(2026, 1, 10, tzinfo=UTC)]),
    created_to=OF([None, None, datetime(2026, 1, 20, tzinfo=UTC)]),
)
LEGS: dict[str, Ranking] = {
    "keyword": replace(ALONE, vector=0),
    "vector": replace(ALONE, keyword=0),
    "all": CONVERSATIONS,
}


def test_every_filter_is_as_a_plain_look_says_in_both_legs(parts: Parts, reader: Reader) -> None:
    drafts = [
        Draft(
            id=f"m{n}",
            content=f"green tea {n}",
            scope="ab"[n % 2],
            project=(None, "a", "b")[n % 3],
            session=(None, "s1", "s2")[n % 3],
            role=("user", "assistant")[n // 2 % 2],
            type=("fact", "turn")[n // 3 % 2],
            tags=("x", "y", "z")[: n % 4],
            labels={"k": "vw"[n % 2]} if n % 3 else {},
            importance=n % 10 / 10,
            created_at=datetime(2026, 1, 1 + n % 28, tzinfo=UTC),
        )
        for n in range(48)
    ]
    list(parts.writer.write_many("t", drafts))
    parts.drain()
    with parts.database.tenant("t") as session:
        session.execute("UPDATE memory SET tier = 'cold' WHERE right(id, 1) = '7'")
    every = reader.get_many("t", [f"m{n}" for n in range(48)]).values()

    @settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(filters=FILTERS, leg=OF(sorted(LEGS)))
    def holds(filters: Filters, leg: str) -> None:
        answer = reader.search("t", "green tea", 60, filters, ranking=LEGS[leg])
        assert sorted(ids(answer)) == sorted(memory.id for memory in every if filters.meets(memory))
        assert answer.degraded is None

    holds()
