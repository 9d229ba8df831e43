"""The whole engine, as a service that imports `core` has it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from core.assembly import Engine, open_engine
from core.batch.embed import Portion, step
from core.errors import NotFound, Refused
from core.model.memory import Draft
from core.model.query import Filters
from core.record.memories import Place
from core.settings import load_settings

NAN = float("nan")


@pytest.fixture
def engine(database_url: str, valkey_url: str, tmp_path: Path) -> Iterator[Engine]:
    with open_engine(load_settings(home=tmp_path, postgres_url=database_url, redis_url=valkey_url)) as opened:
        yield opened


def drain(engine: Engine) -> None:
    step(engine.embed_work(), Portion(tenant="t", records=10_000))


def test_writes_succeed_while_index_cache_and_model_are_all_out_of_order(database_url: str, tmp_path: Path) -> None:
    """Promise 1. Nobody answers at the cache's address, and the index's folder cannot be made."""
    (tmp_path / "vectors").write_text("in the way")
    chosen = {"home": tmp_path, "postgres_url": database_url, "redis_url": "redis://127.0.0.1:1"}
    with open_engine(load_settings(**chosen)) as engine:
        assert engine.write("t", Draft(id="a", content="kept all the same")).version
        assert [one.id for one in engine.write_many("t", [Draft(id="b", content="kept too")])] == ["b"]
        assert engine.delete("t", "b")
        assert engine.get("t", "a").content == "kept all the same"


def test_writes_succeed_while_the_embedded_cache_cannot_start(
    database_url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "valkey").write_text("in the way")
    with open_engine(load_settings(home=tmp_path, postgres_url=database_url)) as engine:
        assert engine.write("t", Draft(content="kept all the same")).version
    assert "without the embedded cache" in caplog.text


ASKED: list[tuple[str, Callable[[Engine], object]]] = [
    ("min_importance", lambda engine: engine.search("t", "tea", 5, Filters(min_importance=NAN))),
    ("min_importance", lambda engine: engine.search("t", "tea", 5, Filters(min_importance=2.0))),
    ("session", lambda engine: engine.search("t", "tea", 5, Filters(session=" "))),
    ("tags_any[0]", lambda engine: engine.search("t", "tea", 5, Filters(tags_any=("",)))),
    ("session", lambda engine: engine.list("t", Place(session=""))),
    ("tenant", lambda engine: engine.backlog(["t", "\ud800"])),
    ("tenant", lambda engine: engine.search("", "tea")),
    ("text", lambda engine: engine.search("t", "\u200b")),
]


@pytest.mark.parametrize(("where", "ask"), ASKED)
def test_what_no_memory_can_have_is_refused_by_its_place(
    engine: Engine, where: str, ask: Callable[[Engine], object]
) -> None:
    engine.write("t", Draft(content="green tea"))
    drain(engine)
    with pytest.raises(Refused) as raised:
        ask(engine)
    assert raised.value.where == where


@pytest.mark.parametrize("odd", ["a\x00b", "\ud83d", "it's", 'a"b', "back\\slash", "%_"])
def test_odd_texts_are_asked_as_they_would_be_kept(engine: Engine, odd: str) -> None:
    engine.write("t", Draft(id="a", content="green tea", session=odd, tags=(odd,)))
    engine.write("t", Draft(id="b", content="green tea", session="another"))
    drain(engine)
    for filters in (Filters(session=odd), Filters(tags_any=(odd,)), Filters(tags_all=(odd,))):
        assert [one.memory.id for one in engine.search("t", "tea", 5, filters).found] == ["a"]
    assert [memory.id for memory in engine.list("t", Place(session=odd))] == ["a"]


def test_naive_times_of_a_filter_are_utc(engine: Engine) -> None:
    moment = datetime(2026, 5, 1, 12, tzinfo=UTC)
    engine.write("t", Draft(id="a", content="green tea", created_at=moment))
    drain(engine)
    naive = Filters(created_from=moment.replace(tzinfo=None), created_to=datetime(2026, 5, 1, 12, 0, 1))
    assert [one.memory.id for one in engine.search("t", "tea", 5, naive).found] == ["a"]


def test_an_expired_memory_is_gone_for_an_update_too(engine: Engine) -> None:
    kept = engine.write("t", Draft(id="a", content="short-lived", expires_at=datetime(2020, 1, 1, tzinfo=UTC)))
    assert kept.version
    with pytest.raises(NotFound):
        engine.update("t", "a", {"importance": 0.9}, kept.version)


def test_notes_of_two_folders_and_of_two_scopes_live_side_by_side(engine: Engine, tmp_path: Path) -> None:
    for name in ("kitchen", "garden"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "README.md").write_text(f"# Plan\n\nthe {name}")
    for folder, scope in (("kitchen", "one"), ("garden", "one"), ("kitchen", "two"), ("kitchen", "one")):
        list(engine.import_notes("t", tmp_path / folder, scope))
    found = {(memory.scope, memory.content.rpartition(" ")[2]) for memory in engine.list("t", Place())}
    assert found == {("one", "kitchen"), ("one", "garden"), ("two", "kitchen")}
    (tmp_path / "garden" / "README.md").write_text("# Plan\n\nthe roof")
    list(engine.import_notes("t", tmp_path / "garden", "one"))
    found = {(memory.scope, memory.content.rpartition(" ")[2]) for memory in engine.list("t", Place())}
    assert found == {("one", "kitchen"), ("one", "roof"), ("two", "kitchen")}
