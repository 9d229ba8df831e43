"""The drain: every record reaches its index, whatever happens between reading it and writing its point."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest

from core.batch.embed import Portion, plan, step, total
from core.errors import BadAnswer, EngineError, Misconfigured, NotFound, Overloaded, Refused, Unavailable
from core.index.indexer import Indexer
from core.model.memory import Draft, embedding_id
from core.model.names import collection_name, index_group
from core.model.outbox import Backlog
from core.model.point import Payload
from core.ports import EmbedLimits
from tests.batch.conftest import Parts

NOW = datetime(2026, 6, 1, tzinfo=UTC)


def drafts(count: int, text: str = "a note about") -> list[Draft]:
    return [Draft(id=f"m{number}", content=f"{text} {number}") for number in range(count)]


def backlog(**waiting: int) -> list[Backlog]:
    return [Backlog(tenant, count, count, 0, NOW) for tenant, count in waiting.items()]


def test_a_plan_covers_the_backlog_and_tenants_take_turns() -> None:
    portions = plan(backlog(a=25, b=5, c=0), 10)
    assert [(one.tenant, one.records) for one in portions] == [("a", 10), ("b", 5), ("a", 10), ("a", 5)]
    with pytest.raises(ValueError, match="at least one"):
        plan(backlog(a=1), 0)


def test_with_no_faults_and_an_empty_outbox_point_and_row_agree_exactly(parts: Parts) -> None:
    list(parts.writer.write_many("t", drafts(50)))
    report = parts.drain()
    assert (report.embedded, report.done, report.postponed) == (50, True, None)
    parts.assert_in_step()


def test_a_second_run_embeds_nothing(parts: Parts) -> None:
    list(parts.writer.write_many("t", drafts(30)))
    parts.drain()
    calls = parts.embedder.calls
    again = parts.drain()
    assert (again.worked, again.done, parts.embedder.calls) == (0, True, calls)


def test_a_portion_is_bounded(parts: Parts) -> None:
    list(parts.writer.write_many("t", drafts(50)))
    report = parts.drain(records=30)
    assert (report.embedded, report.done) == (30, False)
    assert [one.waiting for one in parts.outbox.backlog(["t"])] == [20]


def test_changes_outside_the_embedded_text_cost_no_embedding(parts: Parts) -> None:
    written = parts.writer.write("t", Draft(id="a", content="green tea", importance=0.2))
    parts.drain()
    parts.writer.update("t", "a", {"importance": 0.9, "labels": {"k": "v"}, "metadata": {"n": 1}}, written.version or 0)
    calls = parts.embedder.calls
    report = parts.drain()
    assert (report.payload_only, report.embedded, parts.embedder.calls) == (1, 0, calls)
    parts.assert_in_step()


def test_a_point_lost_before_its_payload_write_is_embedded_anew_and_its_neighbours_are_not(
    parts: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts.writer.write("t", Draft(id="lost", content="green tea"))
    parts.drain()
    parts.writer.update("t", "lost", {"importance": 0.9}, 1)
    parts.writer.write("t", Draft(id="new", content="red car"))
    write = parts.index.set_payload

    def lose_it_first(collection: str, payloads: Sequence[Payload]) -> None:
        parts.index.delete(collection, {payload.embedding_id: payload.stamp.version for payload in payloads})
        write(collection, payloads)

    monkeypatch.setattr(parts.index, "set_payload", lose_it_first)
    step(replace(parts.work, workers=1), Portion(tenant="t", records=100))
    assert parts.embedder.texts == ["green tea", "red car", "green tea"]
    parts.assert_in_step()


def test_equal_texts_are_embedded_once(parts: Parts) -> None:
    list(parts.writer.write_many("t", [Draft(id=f"m{number}", content="the same words") for number in range(10)]))
    step(replace(parts.work, workers=1), Portion(tenant="t", records=100))
    assert parts.embedder.texts == ["the same words"]
    parts.assert_in_step()


def test_a_deleted_memory_leaves_the_index(parts: Parts) -> None:
    list(parts.writer.write_many("t", drafts(3)))
    parts.drain()
    parts.writer.delete("t", "m1")
    assert parts.drain().deleted == 1
    assert embedding_id("t", "m1") not in parts.stamps()
    parts.assert_in_step()


def test_a_delete_between_read_and_upsert_leaves_no_point(parts: Parts) -> None:
    list(parts.writer.write_many("t", drafts(5)))
    parts.embedder.before = lambda texts: parts.writer.delete_many("t", ["m2"]) and None
    parts.drain()
    parts.drain()
    assert embedding_id("t", "m2") not in parts.stamps()
    parts.assert_in_step()


def test_a_purge_between_read_and_upsert_leaves_no_point(parts: Parts) -> None:
    parts.writer.write("t", Draft(id="a", content="soon gone"))

    def purge(texts: object) -> None:
        parts.writer.delete("t", "a")
        with parts.database.tenant("t") as session:
            session.execute("DELETE FROM memory WHERE tenant = 't' AND id = 'a'")
            session.execute("DELETE FROM outbox WHERE tenant = 't' AND memory_id = 'a' AND lease_owner IS NULL")

    parts.embedder.before = purge
    parts.drain()
    parts.drain()
    assert parts.stamps() == {}


def test_an_update_between_read_and_upsert_stays_pending_until_its_vector_is_there(parts: Parts) -> None:
    first = parts.writer.write("t", Draft(id="a", content="the old words"))
    edits = iter(["newer words", "newest words"])
    versions = [first.version or 0]

    def edit(texts: object) -> None:
        text = next(edits, None)
        if text is not None:
            versions.append(parts.writer.update("t", "a", {"content": text}, versions[-1]).version or 0)

    parts.embedder.before = edit
    for left in (1, 1, 0):
        parts.drain(records=1)
        assert [one.waiting for one in parts.outbox.backlog(["t"])] == [left]
    parts.assert_in_step()
    assert parts.embedder.texts == ["the old words", "newer words", "newest words"]


def test_two_drains_at_once_embed_each_text_once(parts: Parts) -> None:
    list(parts.writer.write_many("t", drafts(200)))
    with ThreadPoolExecutor(2) as pool:
        reports = list(pool.map(lambda _: parts.drain(), range(2)))
    assert sum(report.embedded for report in reports) == 200
    assert len(parts.embedder.texts) == len(set(parts.embedder.texts)) == 200
    parts.assert_in_step()


def test_a_bad_item_is_set_aside_and_its_neighbours_are_stored(parts: Parts) -> None:
    list(parts.writer.write_many("t", drafts(64)))

    def refuse(texts: list[str]) -> None:
        if "a note about 5" in texts:
            raise Refused("the provider does not take this text")

    parts.embedder.before = refuse
    report = parts.drain()
    assert (report.embedded, report.set_aside) == (63, {"m5": "the provider does not take this text"})
    assert [(one.memory_id, one.reason) for one in parts.outbox.list_set_aside("t", 10)] == list(
        report.set_aside.items()
    )
    parts.embedder.before = lambda texts: None
    parts.writer.write("t", Draft(id="m5", content="said otherwise"))
    parts.drain()
    parts.assert_in_step()


@pytest.mark.parametrize("problem", [Unavailable("the provider is down"), BadAnswer("63 vectors for 64 texts")])
def test_an_outage_keeps_everything_pending_and_nothing_is_lost(parts: Parts, problem: Exception) -> None:
    list(parts.writer.write_many("t", drafts(40)))

    def fail(texts: object) -> None:
        raise problem

    parts.embedder.before = fail
    report = parts.drain()
    assert report.postponed == str(problem)
    assert [(one.waiting, one.set_aside) for one in parts.outbox.backlog(["t"])] == [(40, 0)]
    parts.embedder.before = lambda texts: None
    rounds = 0
    while parts.outbox.backlog(["t"])[0].waiting and rounds < 100:
        rounds += 1
        parts.drain()
        threading.Event().wait(0.02)
    parts.assert_in_step()


def test_a_wrong_setting_stops_the_step_and_sets_nothing_aside(parts: Parts) -> None:
    list(parts.writer.write_many("t", drafts(10)))

    def other_space(space: object) -> object:
        raise Misconfigured("the generation was built with another model")

    indexer = Indexer(parts.database, parts.outbox, parts.index, other_space)  # type: ignore[arg-type]
    with pytest.raises(Misconfigured):
        step(replace(parts.work, indexer=indexer), Portion(tenant="t", records=100))
    assert [(one.waiting, one.set_aside) for one in parts.outbox.backlog(["t"])] == [(10, 0)]
    parts.drain()
    parts.assert_in_step()


def test_a_text_that_was_paid_for_is_not_embedded_again_for_another_memory(parts: Parts) -> None:
    parts.writer.write("t", Draft(id="first", content="green tea"))
    parts.drain()
    parts.writer.write("t", Draft(id="second", content="green tea", importance=0.9))
    parts.writer.write("t", Draft(id="third", content="black tea"))
    report = parts.drain()
    assert (report.reused, report.embedded, parts.embedder.texts) == (1, 1, ["green tea", "black tea"])
    first, second = (embedding_id("t", name) for name in ("first", "second"))
    stored = parts.index.vectors(collection_name(index_group("t"), 1), [first, second])
    assert np.array_equal(stored[first], stored[second])
    parts.assert_in_step()


def test_a_text_that_comes_back_is_not_embedded_again_while_its_vector_is_kept(parts: Parts) -> None:
    for name, content in (("a", "green tea"), ("b", "green tea"), ("a", "black tea"), ("a", "green tea")):
        parts.writer.write("t", Draft(id=name, content=content))
        parts.drain()
    assert parts.embedder.texts == ["green tea", "black tea"]
    parts.assert_in_step()


def test_of_two_thousand_equal_texts_in_one_drain_one_is_embedded(parts: Parts) -> None:
    list(parts.writer.write_many("t", [Draft(id=f"m{n}", content="green tea") for n in range(2000)]))
    parts.work = replace(parts.work, batch=100, workers=4)
    report = parts.drain()
    assert (report.embedded + report.reused, parts.embedder.texts) == (2000, ["green tea"])
    parts.assert_in_step()


def test_another_tenants_vector_of_the_same_text_is_not_taken(parts: Parts) -> None:
    for tenant in ("t", "u"):
        parts.writer.write(tenant, Draft(content="green tea"))
        assert parts.drain(tenant).embedded == 1


def test_tenants_keep_to_their_own_collections(parts: Parts) -> None:
    for tenant in ("acme", "acme/x", "ACME", ".."):
        parts.writer.write(tenant, Draft(id="same-id", content="the same words"))
        assert parts.drain(tenant).embedded == 1
    parts.writer.delete("acme", "same-id")
    parts.drain("acme")
    assert parts.stamps("acme") == {}
    for tenant in ("acme/x", "ACME", ".."):
        parts.assert_in_step(tenant)
        assert list(parts.stamps(tenant)) == [embedding_id(tenant, "same-id")]


def test_reports_of_one_tenant_add_up(parts: Parts) -> None:
    list(parts.writer.write_many("t", drafts(30)))
    summed = total("t", [parts.drain(records=10), parts.drain()])
    assert (summed.embedded, summed.done) == (30, True)


class Loads:
    """Notes what an index is told of bulk loads, and what the collection held then."""

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self.told: list[tuple[str, int]] = []
        self.problem: EngineError | None = None

    def begin_bulk(self, collection: str) -> None:
        self.note("begin", collection)

    def end_bulk(self, collection: str) -> None:
        self.note("end", collection)

    def note(self, what: str, collection: str) -> None:
        self.told.append((what, self.parts.index.count(collection)))
        if self.problem is not None:
            raise self.problem


def test_an_index_is_told_when_a_bulk_load_begins_and_ends(parts: Parts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("core.batch.embed.BULK", 50)
    loads = Loads(parts)
    work = replace(parts.work, workers=1, batch=10, loads=loads)
    list(parts.writer.write_many("t", drafts(55)))
    for portion in plan(parts.outbox.backlog(), 30):
        step(work, portion)
    assert loads.told == [("begin", 10), ("begin", 40), ("end", 55)]
    list(parts.writer.write_many("t", drafts(5, "a few more about")))
    for portion in plan(parts.outbox.backlog(), 30):
        step(work, portion)
    assert loads.told[3:] == [("end", 55)]  # heals what a run that was killed had begun
    parts.assert_in_step()


@pytest.mark.parametrize("problem", [Unavailable("gone"), NotFound("dropped")])
def test_an_index_that_cannot_be_told_loses_nothing(
    parts: Parts, monkeypatch: pytest.MonkeyPatch, problem: EngineError
) -> None:
    monkeypatch.setattr("core.batch.embed.BULK", 5)
    loads = Loads(parts)
    loads.problem = problem
    list(parts.writer.write_many("t", drafts(10)))
    (portion,) = plan(parts.outbox.backlog(), 30)
    report = step(replace(parts.work, workers=1, batch=5, loads=loads), portion)
    assert (report.embedded, report.postponed) == (5, problem.message)
    loads.problem = None
    parts.drain()
    parts.assert_in_step()


def test_vectors_paid_for_before_a_provider_fails_are_stored_and_not_paid_again(parts: Parts) -> None:
    parts.embedder.limits = EmbedLimits(items=5)

    def fail_once(texts: Sequence[str]) -> None:
        if parts.embedder.calls == 3:
            raise Overloaded("slow down", retry_after=0.01)

    parts.embedder.before = fail_once
    list(parts.writer.write_many("t", drafts(20)))
    report = step(replace(parts.work, workers=1), Portion(tenant="t", records=100))
    assert (report.embedded, report.postponed) == (20, None)
    asked = Counter(parts.embedder.texts)
    assert sum(asked.values()) == 25  # the five of the call that failed went twice
    assert set(asked.values()) == {1, 2}
    parts.assert_in_step()
