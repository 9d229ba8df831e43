"""Working memory: an execution's own, gone with it, and durable once it is promoted."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from core.assembly import Engine, open_engine
from core.errors import Conflict, Refused, Unavailable
from core.model.memory import Draft
from core.record.memories import Place
from core.settings import load_settings
from core.write.working import Scratch, WorkingMemory
from tests.contract.fake_scratch import FakeScratch

THEN = datetime(2026, 5, 1, 12, tzinfo=UTC)


@pytest.fixture
def engine(database_url: str, valkey_url: str, tmp_path: Path) -> Iterator[Engine]:
    chosen = {"postgres_url": database_url, "redis_url": valkey_url, "working_entries": 20}
    with open_engine(load_settings(home=tmp_path, **chosen)) as opened:
        yield opened


def contents(engine: Engine, tenant: str = "t") -> list[str]:
    return sorted(memory.content for memory in engine.list(tenant, Place(), 100))


def working_on(engine: Engine, scratch: Scratch | None) -> WorkingMemory:
    return WorkingMemory(scratch, engine._writer, lambda: "made", lambda: THEN, timedelta(hours=1), 20)


def test_what_an_execution_appends_it_reads_in_order_and_no_search_sees_it(engine: Engine) -> None:
    first = Draft(content="one", tags=("x",), metadata={"deep": [1, None]}, importance=0.9, speaker="Ana", position=3)
    engine.working.append("t", "run", [first, Draft(content="two", expires_at=THEN)])
    engine.working.append("t", "run", [Draft(content="three", id="mine", created_at=THEN, session="talk")])
    read = engine.working.read("t", "run")
    assert [draft.content for draft in read] == ["one", "two", "three"]
    kept = (read[0].tags, read[0].metadata, read[0].importance, read[0].speaker, read[0].position)
    assert kept == (["x"], {"deep": [1, None]}, 0.9, "Ana", 3)
    assert [draft.session for draft in read] == ["run", "run", "talk"]
    assert (read[1].expires_at, read[2].created_at, read[2].id) == (THEN, THEN, "mine")
    assert [draft.content for draft in engine.working.read("t", "run", last=1)] == ["three"]
    assert contents(engine) == []
    assert engine.search("t", "one").found == ()


def test_promoted_it_is_durable_and_leaves_the_working_memory(engine: Engine) -> None:
    ids = engine.working.append("t", "run", [Draft(content="keep", role="user"), Draft(content="noise", role="tool")])
    written = engine.working.promote("t", "run", lambda draft: draft.role == "user")
    assert [one.id for one in written] == ids[:1]
    assert contents(engine) == ["keep"]
    assert [draft.content for draft in engine.working.read("t", "run")] == ["noise"]
    assert [one.memory.id for one in engine.search("t", "keep").found] == ids[:1]
    assert engine.working.promote("t", "run", lambda draft: False) == []


def test_promoted_twice_nothing_changes_and_what_was_deleted_since_stays_deleted(engine: Engine) -> None:
    """The process ended between the commit and the forgetting."""
    scratch = FakeScratch()
    working = working_on(engine, scratch)
    working.append("t", "run", [Draft(content="one", id="a"), Draft(content="two", id="b")])
    left = dict(scratch.kept)
    working.promote("t", "run")
    engine.delete("t", "b")
    scratch.kept = left
    assert [one.version for one in working.promote("t", "run")] == [None, None]
    assert contents(engine) == ["one"]


def test_promoting_is_all_or_nothing(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    engine.working.append("t", "run", [Draft(content="one"), Draft(content="two")])
    with engine._database.tenant("t") as session:
        session.execute("SELECT 1")
    monkeypatch.setattr("core.record.memories.put_terms", _refuse)
    with pytest.raises(Unavailable):
        engine.working.promote("t", "run")
    monkeypatch.undo()
    assert contents(engine) == []
    assert len(engine.working.read("t", "run")) == 2
    assert len(engine.working.promote("t", "run")) == 2


def _refuse(*_: object) -> None:
    raise Unavailable("gone in the middle")


def test_what_is_appended_while_it_is_promoted_stays_and_two_who_promote_write_once(engine: Engine) -> None:
    engine.working.append("t", "run", [Draft(content=f"old {number}") for number in range(10)])

    def chosen(draft: Draft) -> bool:
        if draft.content == "old 9":
            engine.working.append("t", "run", [Draft(content="new")])
        return True

    threads = [threading.Thread(target=engine.working.promote, args=("t", "run", chosen)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(text.startswith("old") for text in contents(engine)) == 10
    left = [draft.content for draft in engine.working.read("t", "run")]
    assert left.count("new") + contents(engine).count("new") == 2


def test_trim_and_forget(engine: Engine) -> None:
    engine.working.append("t", "run", [Draft(content=str(number)) for number in range(5)])
    assert engine.working.trim("t", "run", 2) == 3
    assert [draft.content for draft in engine.working.read("t", "run")] == ["3", "4"]
    assert (engine.working.forget("t", "run"), engine.working.forget("t", "run")) == (True, False)
    assert engine.working.read("t", "run") == []


def test_tenants_and_executions_have_their_own(engine: Engine) -> None:
    places = [("t", "run"), ("t", "1:run"), ("t:1", "run"), ("other", "run")]
    for number, (tenant, execution) in enumerate(places):
        engine.working.append(tenant, execution, [Draft(content=str(number))])
    for number, (tenant, execution) in enumerate(places):
        assert [draft.content for draft in engine.working.read(tenant, execution)] == [str(number)]
    engine.working.promote("other", "run")
    assert contents(engine, "other") == ["3"]
    assert contents(engine) == []


def test_it_is_gone_with_its_time(engine: Engine) -> None:
    now = [0.0]
    working = working_on(engine, FakeScratch(lambda: now[0]))
    working.append("t", "run", [Draft(content="one")])
    now[0] = 3599
    working.append("t", "run", [Draft(content="two", id="b")])
    now[0] = 7000
    assert len(working.read("t", "run")) == 2
    now[0] = 7300
    assert working.read("t", "run") == []
    assert working.promote("t", "run") == []


def test_a_full_one_says_so_and_takes_nothing(engine: Engine) -> None:
    engine.working.append("t", "run", [Draft(content=str(number)) for number in range(19)])
    with pytest.raises(Conflict, match="no room"):
        engine.working.append("t", "run", [Draft(content="a"), Draft(content="b")])
    assert len(engine.working.read("t", "run")) == 19


def test_without_its_store_it_says_so(engine: Engine, database_url: str, tmp_path: Path) -> None:
    away = FakeScratch()
    away.out_of_reach = True
    for working in (working_on(engine, None), working_on(engine, away)):
        for call in (working.read, working.forget, working.promote):
            with pytest.raises(Unavailable):
                call("t", "run")
        with pytest.raises(Unavailable):
            working.append("t", "run", [Draft(content="lost?")])
    with open_engine(load_settings(home=tmp_path / "none", postgres_url=database_url, cache=False)) as without:
        with pytest.raises(Unavailable):
            without.working.read("t", "run")
        assert without.write("t", Draft(content="as ever")).version


@pytest.mark.parametrize(("tenant", "execution", "content"), [("", "run", "x"), ("t", " ", "x"), ("t", "run", " ")])
def test_what_a_write_would_refuse_is_refused_here(engine: Engine, tenant: str, execution: str, content: str) -> None:
    with pytest.raises(Refused):
        engine.working.append(tenant, execution, [Draft(content=content)])


def test_nothing_sensitive_is_kept_outside_the_record(engine: Engine) -> None:
    with pytest.raises(Refused) as caught:
        engine.working.append("t", "run", [Draft(content="fine"), Draft(content="the number is 4711", sensitive=True)])
    assert caught.value.where == "sensitive"
    assert "4711" not in str(caught.value)
    assert engine.working.read("t", "run") == []
