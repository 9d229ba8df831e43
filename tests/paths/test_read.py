"""Reading: whatever the index says, PostgreSQL has the last word."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime

import pytest

from core.errors import NotFound
from core.model.memory import Draft, embedding_id
from core.model.query import Answer, Filters
from core.read.reader import Reader
from core.record.memories import Place, Position
from tests.batch.conftest import Parts

PAST, FUTURE = datetime(2020, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)


def ids(answer: Answer) -> list[str]:
    return [one.memory.id for one in answer.found]


def test_what_was_written_is_found_again_nearest_first(parts: Parts, reader: Reader) -> None:
    texts = {"tea": "Ana likes green tea", "car": "the red car broke down", "both": "green car"}
    list(parts.writer.write_many("t", [Draft(id=name, content=text) for name, text in texts.items()]))
    parts.drain()
    answer = reader.search("t", "green tea", 2, Filters())
    assert ids(answer) == ["tea", "both"]
    assert answer.found[0].score > answer.found[1].score


def test_a_deleted_memory_is_not_found_from_the_moment_delete_returns(parts: Parts, reader: Reader) -> None:
    list(parts.writer.write_many("t", [Draft(id=f"m{number}", content="green tea") for number in range(5)]))
    parts.drain()
    parts.writer.delete("t", "m2")
    assert len(parts.stamps()) == 5
    assert sorted(ids(reader.search("t", "green tea", 5, Filters()))) == ["m0", "m1", "m3", "m4"]
    with pytest.raises(NotFound):
        reader.get("t", "m2")


def test_many_dead_records_above_leave_the_live_ones_below_findable(parts: Parts, reader: Reader) -> None:
    dead = [Draft(id=f"dead{number}", content="green tea") for number in range(200)]
    live = [Draft(id=f"live{number}", content="green tea and a lot of other words") for number in range(2)]
    expired = [Draft(id=f"old{number}", content="green tea", expires_at=PAST) for number in range(61)]
    list(parts.writer.write_many("t", [*dead, *live, *expired]))
    parts.drain()
    parts.writer.delete_many("t", [draft.id or "" for draft in dead])
    assert sorted(ids(reader.search("t", "green tea", 5, Filters()))) == ["live0", "live1"]


def test_a_search_never_shows_another_tenants_memories(parts: Parts, reader: Reader) -> None:
    for tenant in ("acme", "acme/x"):
        parts.writer.write(tenant, Draft(id=tenant, content="green tea"))
        parts.drain(tenant)
    assert ids(reader.search("acme", "green tea", 5, Filters())) == ["acme"]
    assert reader.get_many("acme", ["acme/x"]) == {}


def test_filters_narrow_inside_the_index(parts: Parts, reader: Reader) -> None:
    drafts = [Draft(id=f"m{number}", content="green tea", session=f"s{number}") for number in range(50)]
    list(parts.writer.write_many("t", drafts))
    parts.drain()
    assert ids(reader.search("t", "green tea", 5, Filters(session="s49"))) == ["m49"]


def test_a_tenant_that_never_wrote_or_was_never_indexed_gets_an_honest_answer(parts: Parts, reader: Reader) -> None:
    assert reader.search("nobody", "anything", 5, Filters()) == Answer(found=(), generation=0)
    parts.writer.write("t", Draft(content="green tea"))
    assert reader.search("t", "green tea", 5, Filters()).degraded == "nothing has been indexed yet"


def test_pages_go_newest_first_and_meet_without_gap_or_overlap(parts: Parts, reader: Reader) -> None:
    drafts = [
        Draft(id=f"m{number:02}", content="x", session="s", role="user", created_at=FUTURE) for number in range(25)
    ]
    list(parts.writer.write_many("t", [*drafts, Draft(id="other", content="y", session="else")]))
    seen: list[str] = []
    after = None
    while page := reader.page("t", Place(session="s", role="user"), 10, after):
        seen += [memory.id for memory in page]
        after = Position(page[-1].created_at, page[-1].id)
    assert seen == sorted((draft.id or "" for draft in drafts), reverse=True)
    assert reader.count("t") == 26


def test_point_ids_come_from_tenant_and_id_alone() -> None:

    assert embedding_id("a", "bc") != embedding_id("ab", "c")
    assert isinstance(embedding_id("a", "b"), uuid.UUID)


def test_filters_are_judged_by_the_record_as_it_is_now(parts: Parts, reader: Reader) -> None:
    """The index may be behind: a memory that moved to another session is not found in the old one."""
    version = parts.writer.write("t", Draft(id="a", content="green tea", session="s1")).version
    parts.writer.write("t", Draft(id="b", content="green tea", session="s1"))
    parts.drain()
    assert version is not None
    parts.writer.update("t", "a", {"session": "s2"}, version)
    assert ids(reader.search("t", "green tea", 5, Filters(session="s1"))) == ["b"]


def test_an_index_too_far_behind_is_said_to_be(parts: Parts, reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("core.read.search.POOL", 64)
    dead = [Draft(id=f"dead{number}", content="green tea") for number in range(80)]
    list(parts.writer.write_many("t", [*dead, Draft(id="live", content="green tea and other words")]))
    parts.drain()
    parts.writer.delete_many("t", [str(draft.id) for draft in dead])
    answer = reader.search("t", "green tea", 5, Filters())
    assert ids(answer) == ["live"]  # by its words
    assert answer.degraded is not None
    assert "behind" in answer.degraded
    parts.drain()
    answer = reader.search("t", "green tea", 5, Filters())
    assert (ids(answer), answer.degraded) == (["live"], None)
