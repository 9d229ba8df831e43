"""Sensitive memories: sealed in every store, found by meaning, and carried over to new keys by the rotate chore."""

from __future__ import annotations

import base64
import logging
import random
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.adapters.key_providers import LocalKeys, keys_from_file, keys_from_text
from core.adapters.no_locks import NoLocks
from core.batch.rotate import RotateWork, plan, step
from core.errors import BadAnswer, Busy, EngineError, Misconfigured
from core.index.estimate import Estimator
from core.index.gate import Gate
from core.model.memory import Draft
from core.model.query import Filters
from core.model.ranking import PLAIN
from core.model.sealing import DataKey, seal_object, seal_text, unseal_object, unseal_text
from core.read.access import AccessLog
from core.read.rehydrate import Rehydrate
from core.record import memories
from core.record.generations import live_generation
from core.record.memories import Place
from core.record.refill import refill
from core.write.restore import Became
from tests.batch.lifecycle_parts import Lifecycle, lifecycle_of
from tests.contract.fake_cache import FakeCache

SECRET = "Ana's diagnosis 4711"
OLD, NEW = LocalKeys([b"o" * 32]), LocalKeys([b"n" * 32, b"o" * 32])
DRAFT = Draft(id="a", content=SECRET, title=f"on {SECRET}", metadata={"note": [SECRET, 1]}, sensitive=True)


@pytest.fixture
def cache() -> FakeCache:
    return FakeCache()


@pytest.fixture
def sealed(database_url: str, tmp_path: Path, cache: FakeCache) -> Iterator[Lifecycle]:
    life = lifecycle_of(database_url, tmp_path, keys=OLD, cache=cache)
    life.writer.write("t", DRAFT)
    life.parts.drain()
    yield life
    life.close()


def rotated(life: Lifecycle, *, new_key: bool = False) -> int:
    work = RotateWork(
        database=life.parts.database,
        vault=life.contents.vault,
        locks=NoLocks(),
        new_id=life.erase_work.new_id,
        batch=2,
    )
    (portion,) = plan(["t"], new_key=new_key)
    resealed = 0
    for _ in range(100):
        report = step(work, portion)
        assert (report.postponed, report.failed) == (None, 0)
        resealed += report.resealed
        if report.next is None:
            return resealed
        portion = report.next
    raise AssertionError("no end")


def record(life: Lifecycle) -> str:
    tables = ("memory", "memory_version", "outbox", "event", "data_key", "keyword", "posting")
    return "\n".join(str(life.sql(f"SELECT to_jsonb(t) AS row FROM {table} t")) for table in tables)


def test_what_is_sensitive_is_in_the_clear_in_no_store_and_in_no_log(
    sealed: Lifecycle, cache: FakeCache, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    sealed.writer.update("t", "a", {"metadata": {"note": f"{SECRET}, twice"}}, 1)
    sealed.parts.drain()
    sealed.age()
    sealed.archive()
    assert sealed.get("a").metadata == {"note": f"{SECRET}, twice"}
    assert "4711" not in record(sealed)
    assert sealed.row("a")["content"] == ""  # the stub of a sensitive memory shows no beginning
    assert b"4711" not in b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert "4711" not in str(vars(cache))
    assert "4711" not in caplog.text


def test_the_keyword_leg_leaves_it_out_from_the_moment_it_is_sealed(sealed: Lifecycle) -> None:
    words = replace(PLAIN, vector=0.0, keyword=1.0)
    assert sealed.reader.search("t", SECRET, 5, Filters(), words).found == ()
    sealed.writer.update("t", "a", {"sensitive": False}, 1)
    assert [one.memory.id for one in sealed.reader.search("t", SECRET, 5, Filters(), words).found] == ["a"]
    sealed.writer.update("t", "a", {"sensitive": True}, 2)
    assert sealed.sql("SELECT term FROM posting") == []
    assert list(refill(sealed.parts.database, "t")) == []


def test_a_sealed_memory_is_estimated_and_judged_by_its_text_in_the_clear(sealed: Lifecycle) -> None:
    parts, opened = sealed.parts, sealed.contents.vault.all_opened
    with parts.database.tenant("t") as session:
        live = live_generation(session, "t")
    assert live is not None
    found = Estimator(parts.database, parts.index, opened=opened).estimate(live, "t")
    assert (found.records, found.reusable, found.texts) == (1, 1, 0)
    gate = Gate(
        database=parts.database,
        index=parts.index,
        embedder_of=lambda _space: parts.embedder,
        clock=time.monotonic,
        opened=opened,
    )
    verdict, _ = gate.judge(live, live, random.Random(1), datetime.now(UTC))
    assert {one.name: one.passed for one in verdict.checks}["payloads"]


def test_it_is_found_by_meaning_and_read_in_the_clear(sealed: Lifecycle) -> None:
    (hit,) = sealed.reader.search("t", SECRET, 5, Filters()).found
    assert (hit.memory.content, hit.memory.title, hit.memory.metadata) == (SECRET, f"on {SECRET}", DRAFT.metadata)
    assert [one.content for one in sealed.reader.page("t", Place(), 5)] == [SECRET]


def test_the_same_again_changes_nothing_and_an_update_stays_sealed(sealed: Lifecycle) -> None:
    assert sealed.writer.write("t", DRAFT).version is None
    (again,) = sealed.writer.write_many("t", [DRAFT])
    assert again.version is None
    sealed.writer.update("t", "a", {"importance": 0.9}, 1)
    assert sealed.get("a").content == SECRET
    sealed.writer.update("t", "a", {"sensitive": False}, 2)
    assert (sealed.row("a")["content"], sealed.row("a")["key_id"]) == (SECRET, None)


def test_without_a_master_key_nothing_sensitive_is_kept_nor_opened(sealed: Lifecycle, tmp_path: Path) -> None:
    closed = lifecycle_of(sealed.url, tmp_path / "other")
    with pytest.raises(Misconfigured, match="key_provider"):
        closed.writer.write("t", Draft(content=SECRET, sensitive=True))
    with pytest.raises(Misconfigured):
        closed.get("a")
    closed.close()
    wrong = lifecycle_of(sealed.url, tmp_path / "wrong", keys=LocalKeys([b"w" * 32]))
    with pytest.raises(Misconfigured, match="not among those"):
        wrong.get("a")
    wrong.close()


def test_archived_and_restored_it_stays_sealed(sealed: Lifecycle) -> None:
    sealed.age()
    assert sealed.archive().archived == 1
    assert rotated(sealed, new_key=True) == 0  # the object stays under its key, and so does its stub
    assert sealed.get("a").content == SECRET
    assert [one.became for one in sealed.restore("a")] == [Became.RESTORED]
    assert rotated(sealed) == 1
    assert sealed.get("a").content == SECRET
    assert "4711" not in record(sealed)


def test_a_rotation_while_its_object_is_put_costs_an_archived_memory_nothing(
    sealed: Lifecycle, monkeypatch: pytest.MonkeyPatch
) -> None:
    sealed.age()
    put_many = sealed.blobs.put_many

    def rotated_meanwhile(objects: Mapping[str, bytes]) -> dict[str, EngineError]:
        done = put_many(objects)
        if any(key.startswith("t/") for key in objects):
            assert rotated(sealed, new_key=True) == 1
        return done

    monkeypatch.setattr(sealed.blobs, "put_many", rotated_meanwhile)
    report = sealed.archive()
    assert (report.archived, report.moved_on) == (0, 1)
    assert sealed.get("a").content == SECRET
    monkeypatch.undo()
    assert sealed.archive().failed_count == 1  # the object that was put is of the old key, and nobody points at it
    sealed.arrived(days=2)
    assert sealed.reap().objects == 1
    assert sealed.archive().archived == 1
    assert sealed.get("a").content == SECRET
    sealed.restore("a")
    assert sealed.get("a").content == SECRET


def test_what_is_made_sensitive_is_in_no_older_version_in_the_clear(sealed: Lifecycle) -> None:
    sealed.writer.write("t", Draft(id="b", content="the number is 4711"))
    sealed.writer.update("t", "b", {"sensitive": True}, 1)
    assert sealed.sql("SELECT version FROM memory_version WHERE id = 'b'") == []
    sealed.writer.write("t", Draft(id="c", content="the number is 4711 too"))
    list(sealed.writer.write_many("t", [Draft(id="c", content="the number is 4711 too", sensitive=True)]))
    assert "4711" not in record(sealed)
    sealed.writer.update("t", "b", {"importance": 0.7}, 2)
    assert len(sealed.sql("SELECT version FROM memory_version WHERE id = 'b'")) == 1  # sealed versions stay


def test_a_sealed_memory_in_an_object_that_cannot_be_opened_fails_no_search(sealed: Lifecycle, tmp_path: Path) -> None:
    sealed.age()
    sealed.archive()
    sealed.writer.write("t", Draft(id="clear", content=f"{SECRET} no more"))
    sealed.parts.drain()
    locked = lifecycle_of(sealed.url, tmp_path / "other", blobs=sealed.blobs)
    with locked.parts.database.tenant("t") as session:
        found = memories.fetch(session, "t", ["a", "clear"])
    whole, said = Rehydrate(locked.contents, AccessLog(locked.parts.database, time.monotonic)).hits(found)
    assert list(whole) == ["clear"]
    assert said is not None
    assert "master key" in said


def test_rotation_puts_all_under_the_key_in_use_and_changes_no_memory(sealed: Lifecycle, tmp_path: Path) -> None:
    for number in range(5):
        sealed.writer.write("t", Draft(id=f"m{number}", content=f"{SECRET} {number}", sensitive=True))
    before = {row["id"]: row["version"] for row in sealed.sql("SELECT id, version FROM memory")}
    first = sealed.row("a")["key_id"]
    renewed = lifecycle_of(sealed.url, tmp_path / "renewed", keys=NEW)
    assert rotated(renewed, new_key=True) == 6
    assert {row["key_id"] for row in sealed.sql("SELECT key_id FROM memory")} != {first}
    assert len(sealed.sql("SELECT id FROM data_key")) == 2
    assert {row["master"] for row in sealed.sql("SELECT master FROM data_key")} == {NEW.name}
    assert {row["id"]: row["version"] for row in sealed.sql("SELECT id, version FROM memory")} == before
    assert renewed.get("m3").content == f"{SECRET} 3"
    assert rotated(renewed) == 0
    alone = lifecycle_of(
        sealed.url, tmp_path / "alone", keys=LocalKeys([b"n" * 32])
    )  # the old master key is not needed
    assert alone.get("a").content == SECRET
    for one in (alone, renewed):
        one.close()


def test_a_memory_moved_to_another_place_does_not_open_and_fails_no_neighbour(sealed: Lifecycle) -> None:
    sealed.writer.write("t", Draft(id="b", content="hers", sensitive=True))
    sealed.writer.write("t", Draft(id="c", content="plain"))
    sealed.sql("UPDATE memory SET content = (SELECT content FROM memory WHERE id = 'a') WHERE id = 'b'")
    with pytest.raises(BadAnswer):
        sealed.get("b")
    report = sealed.parts.drain()
    assert (list(report.set_aside), report.embedded) == (["b"], 1)
    answer = sealed.reader.search("t", "plain", 5, Filters())
    assert {one.memory.id for one in answer.found} == {"a", "c"}


def test_a_key_destroyed_while_a_writer_still_knows_it_loses_no_write(sealed: Lifecycle) -> None:
    sealed.contents.vault.in_use("t")
    sealed.sql("DELETE FROM data_key")
    with pytest.raises(Busy):
        sealed.writer.write("t", Draft(id="b", content="hers", sensitive=True))
    sealed.writer.write("t", Draft(id="b", content="hers", sensitive=True))
    assert sealed.get("b").content == "hers"


def test_a_key_file_is_made_once_and_read_by_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "master.key"
    first = keys_from_file(path)
    assert keys_from_file(path).name == first.name
    path.chmod(0o644)
    with pytest.raises(Misconfigured, match="chmod 600"):
        keys_from_file(path)
    for wrong in ("", "short", base64.b64encode(b"x" * 31).decode()):
        with pytest.raises(Misconfigured):
            keys_from_text(wrong)


@settings(max_examples=60, deadline=None)
@given(text=st.text(), place=st.text(min_size=1), other=st.text(min_size=1), at=st.integers(0, 10_000))
def test_what_is_sealed_opens_at_its_place_only_and_unchanged_only(text: str, place: str, other: str, at: int) -> None:
    place, other, text = (one.encode(errors="replace").decode() for one in (place, other, text))
    key = DataKey("k", b"k" * 32)
    sealed = seal_text(key, place, text)
    assert unseal_text(key, place, sealed) == text
    assert seal_text(key, place, text) == sealed
    if other != place:
        with pytest.raises(EngineError):
            unseal_text(key, other, sealed)
    data = seal_object(key, place, text.encode())
    assert unseal_object(key, place, data) == text.encode()
    spoiled = bytearray(data)
    spoiled[-1 - at % 16] ^= 1
    with pytest.raises(BadAnswer):
        unseal_object(key, place, bytes(spoiled))
    with pytest.raises(BadAnswer):
        unseal_text(DataKey("k", b"x" * 32), place, sealed)


def test_its_key_is_never_shown() -> None:
    assert "kkkk" not in repr(DataKey("id", b"k" * 32))
