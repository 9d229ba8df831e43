"""The erase chore beside others that change what it is erasing, and resumed behind what it has done."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from core.adapters.redis_cache import RedisCache
from core.adapters.redis_server import RedisServer
from core.batch import erase
from core.batch.erase import plan
from core.model.erasure import Request
from core.model.memory import Draft
from core.record import erasures
from tests.batch.lifecycle_parts import Lifecycle, lifecycle_of
from tests.batch.test_erase import TEXT, everywhere, receipt

MEANWHILE: dict[str, Callable[[Lifecycle], object]] = {
    "archive": lambda life: life.archive(),
    "restore": lambda life: life.restore("stub"),
    "keep": lambda life: life.sql("UPDATE memory SET keep = true, version = next_version(version)"),
    "expire": lambda life: (life.sql("UPDATE memory SET expires_at = now() WHERE id = 'a'"), life.reap()),
    "delete": lambda life: life.writer.delete("t", "a"),
    "update": lambda life: life.writer.update("t", "a", {"importance": 0.7}, life.row("a")["version"]),
    "update to somebody else": lambda life: life.writer.update("t", "a", {"subject": "bert"}, life.row("a")["version"]),
}


@pytest.mark.parametrize("what", MEANWHILE)
@pytest.mark.parametrize("when", ["plan", "collect", "announce"])
def test_what_raises_a_version_while_an_erasure_is_under_way_keeps_nothing_from_it(
    life: Lifecycle, monkeypatch: pytest.MonkeyPatch, what: str, when: str
) -> None:
    for name in ("a", "stub"):
        life.writer.write("t", Draft(id=name, content=f"{TEXT} ({name})", title="Ana", subject="ana"))
    life.parts.drain()
    life.age(ids=["stub"])
    life.archive()
    life.age(ids=["a"])
    life.later(purge_after=timedelta(days=1))
    meanwhile = [lambda: MEANWHILE[what](life)]

    def first(original: Callable[..., Any]) -> Callable[..., Any]:
        def after(*arguments: Any, **named: Any) -> Any:
            result = original(*arguments, **named)
            if meanwhile:
                meanwhile.pop()()
            return result

        return after

    if when == "plan":
        monkeypatch.setattr(erasures, "begin", first(erasures.begin))
    elif when == "announce":
        monkeypatch.setattr(erasures, "standing", first(erasures.standing))
    else:
        monkeypatch.setattr(erasures, "collect", first(erasures.collect))
    found = receipt(life, subject="ana")
    assert all(store["gone"] for store in found["stores"].values())
    assert meanwhile == []
    assert life.sql("SELECT id FROM memory") == []
    assert "diagnosis" not in everywhere(life)
    assert life.objects() == []


def test_an_erasure_is_collected_in_pages_and_resumed_behind_what_is_removed(life: Lifecycle) -> None:
    life.erase_work = replace(life.erase_work, batch=3)
    list(life.writer.write_many("t", [Draft(id=f"m{n}", content=f"{TEXT} {n}", subject="ana") for n in range(8)]))
    portion = plan(life.erase_work, Request(tenant="t", kind="subject", value="ana"))
    portion = erase.step(life.erase_work, portion).next or portion
    assert len(life.sql("SELECT * FROM erasure_item")) == 3
    portion = plan(life.erase_work, Request(tenant="t", kind="subject", value="ana"))
    assert portion.after == "m2"
    while portion.phase is not erase.Phase.ERASE:
        portion = erase.step(life.erase_work, portion).next or portion
    assert erase.step(life.erase_work, portion).memories == 3
    report = life.erase(subject="ana")
    assert report.receipt is not None
    assert (report.memories, report.receipt["memories"], report.receipt["outcome"]) == (5, 8, "gone")


def test_a_vector_by_a_batch_job_that_several_memories_share_names_none_of_the_erased(life: Lifecycle) -> None:
    life.erase_work = replace(life.erase_work, batch=1)
    for name, subject in (("a", "ana"), ("b", "bert"), ("c", "ana")):
        life.writer.write("t", Draft(id=name, content=TEXT, subject=subject))
    job = uuid.uuid4()
    life.sql(
        "INSERT INTO batch_job (tenant, id, generation, fingerprint, provider, model, state, deadline, ended_at)"
        " VALUES ('t', %s, 1, 'f', 'p', 'm', 'ingested', now(), now())",
        job,
    )
    for names in (["a", "b"], ["a", "c"]):
        life.sql(
            "INSERT INTO batch_item (tenant, id, job, fingerprint, text_hash, tokens, memory_ids, versions, state)"
            " VALUES ('t', %s, %s, 'f', 'h', 1, %s, ARRAY[1, 1], 'kept')",
            uuid.uuid4(),
            job,
            names,
        )
    assert receipt(life, subject="ana")["outcome"] == "gone"
    assert life.sql("SELECT memory_ids, versions FROM batch_item") == [{"memory_ids": ["b"], "versions": [1]}]
    receipt(life)
    assert life.sql("SELECT id FROM batch_item") + life.sql("SELECT id FROM batch_job") == []


def test_with_the_cache_out_of_reach_a_receipt_is_pending_until_its_contents_have_ended(
    database_url: str, tmp_path: Path
) -> None:
    away = RedisServer("redis://127.0.0.1:1/0", timeout=timedelta(seconds=1))
    life = lifecycle_of(database_url, tmp_path, cache=RedisCache(away, prefix="x:"))
    life.writer.write("t", Draft(id="a", content=TEXT, subject="ana"))
    found = receipt(life, subject="ana")
    assert (found["outcome"], found["pending_until"] is not None) == ("pending", True)
    life.close()
    away.close()
