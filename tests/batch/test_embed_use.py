"""What embedding takes is noted per tenant, day and model, also when a store fails; budgets stop a run cleanly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from typing import Any

import pytest

from core.batch.embed import Portion, step
from core.errors import Unavailable
from core.index.budget import Budget
from core.model.memory import Draft
from core.model.point import Point
from core.model.use import DayOfUse, Use
from core.record.uses import add_use, tokens_today, uses
from tests.batch.conftest import Parts


def drafts(count: int, text: str = "three words and") -> list[Draft]:
    return [Draft(id=f"m{number}", content=f"{text} {number}") for number in range(count)]


def use(parts: Parts, tenant: str = "t") -> Use:
    (day,) = uses(parts.database, 1, [tenant])
    assert (day.provider, day.model) == ("fake", "fake")
    return day.use


def test_requests_texts_and_tokens_are_noted_and_what_reuse_spared(parts: Parts) -> None:
    list(parts.writer.write_many("t", drafts(20)))
    parts.drain()
    assert use(parts) == Use(requests=1, texts=20, tokens=80)
    parts.writer.write("t", Draft(id="again", content="three words and 7"))
    parts.writer.write("t", Draft(id="new", content="two words"))
    parts.drain()
    spared = Use(requests=2, texts=21, tokens=82, reused_texts=1, reused_tokens=5)
    assert use(parts) == spared
    parts.drain()
    assert use(parts) == spared


def test_tenants_have_their_own_lines_and_a_day_is_all_of_them(parts: Parts) -> None:
    for tenant in ("t", "u"):
        list(parts.writer.write_many(tenant, drafts(5)))
        parts.drain(tenant)
    assert {one.tenant: one.use.tokens for one in uses(parts.database, 1)} == {"t": 20, "u": 20}
    assert tokens_today(parts.database) == 40


def test_a_days_budget_goes_by_all_models_together(parts: Parts) -> None:
    list(parts.writer.write_many("t", drafts(5)))
    parts.drain()
    with parts.database.tenant("t") as session:
        add_use(session, "t", replace(parts.embedder.space, model="another"), Use(requests=1, texts=1, tokens=100))
    assert tokens_today(parts.database) == 120


def test_what_was_paid_is_noted_also_when_the_index_fails_after_it(
    parts: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(collection: str, points: Sequence[Point]) -> None:
        raise Unavailable(f"{collection} is out of reach with {len(points)} points")

    list(parts.writer.write_many("t", drafts(5)))
    with monkeypatch.context() as context:
        context.setattr(parts.index, "upsert", fail)
        assert parts.drain().postponed
    assert use(parts).tokens == 20


@pytest.mark.parametrize(
    ("given", "said"), [({"a_run": 100, "a_day": None}, "the run's"), ({"a_run": None, "a_day": 100}, "the day's")]
)
def test_a_budget_stops_between_batches_says_so_and_loses_nothing(
    parts: Parts, given: dict[str, Any], said: str
) -> None:
    list(parts.writer.write_many("t", drafts(100)))
    budget = Budget(**given, spent_today=lambda: tokens_today(parts.database))
    report = step(replace(parts.work, workers=1, budget=budget), Portion(tenant="t", records=1000))
    assert report.embedded == 40  # batches of 20 texts, 80 tokens each: the second one passes it
    assert report.postponed is not None
    assert report.postponed.startswith(said)
    assert not report.done
    again = step(replace(parts.work, workers=1, budget=budget), Portion(tenant="t", records=1000))
    assert (again.embedded, again.postponed) == (0, report.postponed)
    assert [(one.waiting, one.set_aside) for one in parts.outbox.backlog(["t"])] == [(60, 0)]
    parts.drain()
    parts.assert_in_step()


def test_money_is_tokens_times_the_price_of_a_million() -> None:
    (tenant, model) = ("t", "m")
    day = DayOfUse(
        tenant=tenant, day=date(2026, 12, 1), provider="p", model=model,
        use=Use(requests=1, texts=1, tokens=2_500_000, reused_texts=1, reused_tokens=500_000),
    )  # fmt: skip
    assert (day.money(0.02), day.saved(0.02), day.money(None), day.saved(None)) == (0.05, 0.01, None, None)
