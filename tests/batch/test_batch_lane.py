"""The batch lane: what goes into a job, what does not, what it costs, and how much at a time."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from core.assembly.models import price_of
from core.batch.batch_lane import KEEP_VECTORS, Submitting, plan, step, sweep
from core.index.budget import Budget
from core.index.estimate import Estimate, Estimator
from core.model.batch import JobState
from core.model.memory import Draft
from core.model.outbox import Backlog
from core.ports import BatchLimits
from core.record.batch_jobs import BatchVectors
from core.record.generations import generations
from core.record.uses import tokens_today
from tests.batch.batch_engine import Lane

NOW = datetime(2026, 6, 1, tzinfo=UTC)


def numbers(count: int) -> list[str]:
    return [f"m{number}" for number in range(count)]


def limited(lane: Lane, **limits: Any) -> None:
    """The provider takes no more than this."""
    batches = lane.engine._stores.models.batches_of(lane.engine._writer._space)
    assert batches is not None
    batches._limits = BatchLimits(**{"inputs": 50_000, "bytes": 200_000_000, **limits})  # type: ignore[attr-defined]


def test_a_plan_has_a_piece_for_each_tenant_with_work_that_is_not_in_jobs_already() -> None:
    backlog = [
        Backlog("a", 9, 9, 0, NOW, in_batch=2),
        Backlog("b", 5, 5, 0, NOW, in_batch=5),
        Backlog("c", 1, 0, 0, NOW),
    ]
    assert [(one.tenant, one.records) for one in plan(backlog, 5)] == [("a", 5)]
    with pytest.raises(ValueError, match="at least one"):
        plan(backlog, 0)


def test_everything_that_waits_goes_by_a_job_and_no_request_of_its_own(lane: Lane) -> None:
    lane.remember(*numbers(50))
    report = lane.submit()
    assert (report.entries, report.texts, len(report.jobs)) == (50, 50, 1)
    assert lane.waiting() == (50, 50, 0)
    assert lane.drain().worked == 0
    (followed,) = lane.follow()
    assert followed.state is JobState.RUNNING
    lane.provider.finish()
    (followed,) = lane.follow()
    assert (followed.state, followed.kept) == (JobState.INGESTED, 50)
    assert lane.waiting() == (50, 0, 0)
    assert lane.drain().embedded == 50
    assert lane.online() == []
    assert lane.waiting() == (0, 0, 0)
    lane.assert_in_step()


def test_a_line_asks_just_what_a_request_of_its_own_would_and_says_nothing_of_the_memory(lane: Lane) -> None:
    lane.engine.write("t", Draft(id="a-telling-id", content="Ana\u2028prefers \x85 green tea \U0001f375"))
    lane.submit()
    (batch,) = lane.provider.batches.values()
    assert len(batch["lines"].decode().splitlines()) == 1
    (line,) = lane.provider.lines(batch)
    assert (line["method"], line["url"], batch["endpoint"]) == ("POST", "/v1/embeddings", "/v1/embeddings")
    assert batch["completion_window"] == "24h"
    lane.provider.finish()
    lane.follow()
    lane.drain()
    lane.engine.write("t", Draft(id="b", content="other words"))
    lane.drain()
    (request,) = [one for one in lane.provider.server.requests if one.path.endswith("/embeddings")]
    assert {name: value for name, value in line["body"].items() if name != "input"} == {
        name: value for name, value in request.body.items() if name != "input"
    }
    assert "telling" not in json.dumps(line)
    lane.assert_in_step()


def test_what_needs_no_embedding_is_done_on_the_way_and_equal_texts_go_once(lane: Lane) -> None:
    lane.remember("known", "gone", "changed")
    lane.drain()
    online = len(lane.online())
    lane.engine.delete("t", "gone")
    lane.engine.update("t", "changed", {"importance": 0.9}, 1)
    lane.engine.write("t", Draft(id="same", content="a note about known"))
    for name in ("x", "y", "z"):
        lane.engine.write("t", Draft(id=name, content="the same words"))
    report = lane.submit()
    assert (report.entries, report.texts, report.reused, report.brought) == (3, 1, 1, 2)
    assert lane.waiting() == (3, 3, 0)
    lane.provider.finish()
    lane.follow()
    assert lane.drain().embedded == 3
    assert len(lane.online()) == online
    lane.assert_in_step()


@pytest.mark.parametrize("limits", [{"inputs": 8}, {"bytes": 8 * 230}])
def test_jobs_keep_to_the_providers_limits(lane: Lane, limits: dict[str, int]) -> None:
    lane.remember(*numbers(20))
    limited(lane, **limits)
    reports = [lane.submit() for _ in range(4)]
    assert sum(one.texts for one in reports) == 20
    for batch in lane.provider.batches.values():
        assert len(lane.provider.lines(batch)) <= limits.get("inputs", 20)
        assert len(batch["lines"]) <= limits.get("bytes", 200_000_000)
    assert 3 <= len(lane.provider.batches) <= 4
    assert sorted(lane.provider.texts) == sorted(set(lane.provider.texts))


def test_no_more_tokens_wait_in_jobs_than_the_provider_allows(lane: Lane) -> None:
    lane.remember(*numbers(20))
    limited(lane, tokens=25)  # a text is estimated at 4
    assert lane.submit().texts == 6
    assert lane.submit().postponed
    lane.provider.finish()
    lane.follow()
    assert lane.submit().texts == 6


def test_a_budget_bounds_what_is_put_in_jobs_and_counts_what_waits_there(lane: Lane) -> None:
    lane.remember(*numbers(20))
    budget = Budget(40, None, lambda: tokens_today(lane.engine._database))
    work = replace(lane.engine.batch_work(), budget=budget)
    report = step(work, Submitting(tenant="t", records=100))
    assert (report.texts, report.tokens) == (10, 40)
    assert "budget" in (step(work, Submitting(tenant="t", records=100)).postponed or "")
    assert (budget.used_up() or "").startswith("the day's")
    run = Budget(None, 20, lambda: 0)
    assert step(replace(work, budget=run), Submitting(tenant="t", records=100)).texts == 5
    assert run.left() == 0


def test_tokens_of_jobs_are_noted_at_the_price_of_jobs(lane: Lane) -> None:
    lane.remember(*numbers(10))
    lane.submit()
    lane.provider.finish()
    lane.follow()
    lane.drain()
    lane.remember("online", text="three words and")
    lane.drain()
    (day,) = lane.engine.uses(1)
    assert (day.use.tokens, day.use.batch_tokens, day.use.texts, day.use.reused_texts) == (44, 40, 11, 0)
    price, batch_price = (price_of(day.provider, day.model, batch=batch) for batch in (False, True))
    assert (price, batch_price) == (0.02, 0.01)
    assert day.money(price, batch_price) == pytest.approx((4 * 0.02 + 40 * 0.01) / 1e6)


def test_tenants_have_jobs_of_their_own(lane: Lane) -> None:
    for tenant in ("t", "u"):
        lane.remember(*numbers(3), tenant=tenant)
        lane.submit(tenant)
    assert {(job.tenant, job.inputs) for job in lane.jobs()} == {("t", 3), ("u", 3)}
    lane.provider.finish()
    lane.follow()
    for tenant in ("t", "u"):
        assert lane.drain(tenant).embedded == 3
        lane.assert_in_step(tenant)
    with lane.engine._database.tenant("u") as session:
        assert {row["tenant"] for row in session.execute("SELECT tenant FROM batch_item").fetchall()} == {"u"}
        assert {row["tenant"] for row in session.execute("SELECT tenant FROM batch_job").fetchall()} == {"u"}


def test_the_record_holds_no_content_of_a_job(lane: Lane) -> None:
    lane.remember("m1", text="very private words about")
    lane.submit()
    rows = lane.run("SELECT to_jsonb(i)::text FROM batch_item i UNION ALL SELECT to_jsonb(j)::text FROM batch_job j")
    assert len(rows) == 2
    assert not any("private" in row[0] for row in rows)


def test_vectors_are_dropped_once_they_were_brought_or_are_too_old(lane: Lane) -> None:
    lane.remember(*numbers(4))
    lane.submit()
    lane.provider.finish()
    lane.follow()
    work = lane.engine.batch_work()
    assert sweep(work, "t") == 0
    lane.drain()
    assert sweep(work, "t") == 4
    lane.remember("late", text="other words and")
    lane.submit()
    lane.provider.finish()
    lane.follow()
    lane.run("UPDATE batch_job SET ended_at = now() - %s", KEEP_VECTORS * 2)
    assert sweep(work, "t") == 1
    lane.drain()
    lane.assert_in_step()


def test_the_second_time_an_entry_is_held_its_first_deadline_stays(lane: Lane) -> None:
    lane.remember("m1")
    lane.submit()
    first = lane.run("SELECT ready_at FROM outbox")
    lane.provider.finish(fate=lambda number, text: "missing")
    lane.follow()
    assert lane.run("SELECT ready_at <= now() FROM outbox") == [(True,)]
    lane.submit()
    assert lane.run("SELECT ready_at FROM outbox") == first


def test_an_estimate_says_what_a_run_then_takes(lane: Lane) -> None:
    lane.remember(*numbers(5))
    lane.drain()
    before = len(lane.online())
    lane.remember("new", "other", text="three new words for")
    lane.engine.write("t", Draft(id="twin", content="three new words for new"))
    lane.engine.write("t", Draft(id="reused", content="a note about m1"))
    lane.engine.delete("t", "m4")
    (one,) = lane.engine.estimates()
    assert (one.tenant, one.in_batch) == ("t", 0)
    assert one.estimate == Estimate(records=5, texts=2, tokens=6 + 7, reusable=1)
    lane.drain()
    assert sorted(lane.online()[before:]) == ["three new words for new", "three new words for other"]
    assert lane.engine.estimates() == []


def test_an_estimate_for_another_space_is_over_all_records_and_reuses_what_is_kept(lane: Lane) -> None:
    lane.remember(*numbers(5))
    lane.engine.delete("t", "m4")
    database, index = lane.engine._database, lane.engine._index
    space = lane.engine._writer._space
    with database.tenant("t") as session:
        (generation,) = generations(session, "t")
    lane.submit()
    lane.provider.finish()
    lane.follow()
    known = [BatchVectors(database)]
    elsewhere = replace(space, dimensions=64)
    assert Estimator(database, index, known).estimate(elsewhere, "t") == Estimate(records=4, texts=4, tokens=16)
    assert Estimator(database, index, known).estimate(space, "t") == Estimate(records=4, reusable=4)
    lane.drain()
    assert Estimator(database, index).estimate(generation, "t") == Estimate(records=4, reusable=4)


class _Nothing:
    """A source that knows nothing, and counts how often it is asked."""

    def __init__(self) -> None:
        self.most = 0

    def vectors_of_texts(self, generation: Any, hashes: Sequence[str]) -> dict[str, Any]:
        self.most = max(self.most, len(hashes))
        return {}


def test_an_estimate_goes_page_by_page(lane: Lane, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("core.index.estimate.PAGE", 7)
    lane.remember(*numbers(30))
    source = _Nothing()
    space = lane.engine._writer._space
    found = Estimator(lane.engine._database, lane.engine._index, [source]).estimate(space, "t")
    assert (found.records, found.texts, source.most) == (30, 30, 7)
