"""What was asked lately, for the gate of a reindex."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from core.assembly import Engine, open_engine
from core.read.recent import MOST, RecentQueries
from core.settings import load_settings
from tests.contract.fake_cache import FakeCache

DAY = timedelta(days=1)


@pytest.fixture
def engine(database_url: str, valkey_url: str, tmp_path: Path) -> Iterator[Engine]:
    with open_engine(load_settings(home=tmp_path, postgres_url=database_url, redis_url=valkey_url)) as opened:
        yield opened


def test_the_newest_distinct_questions_of_each_tenant_are_known_to_all_processes() -> None:
    cache = FakeCache()
    one, another = RecentQueries(cache, DAY), RecentQueries(cache, DAY)
    for number in range(MOST + 30):
        one.note("t", f"question {number}")
    one.note("t", "question 100")
    another.note("other", "mine")
    one.close()
    another.note("t", "the last")
    another.close()
    known = RecentQueries(cache, DAY).queries("t")
    assert len(known) == len(set(known)) == MOST
    assert known[-2:] == ["question 100", "the last"]
    assert RecentQueries(cache, DAY).queries("other") == ["mine"]


def test_nothing_is_kept_when_that_is_chosen_or_the_cache_is_away() -> None:
    off = RecentQueries(FakeCache(), timedelta(0))
    off.note("t", "question")
    assert off.queries("t") == []
    cache = FakeCache()
    cache.out_of_reach = True
    away = RecentQueries(cache, DAY)
    for number in range(50):
        away.note("t", f"question {number}")
    away.close()
    assert away.queries("t") == []
    cache.out_of_reach = False
    cache.put("asked:t", b"{broken", DAY)
    assert away.queries("t") == []


def test_a_reindex_is_judged_by_what_was_asked(engine: Engine) -> None:
    engine.search("t", "what does Ana drink?")
    engine.search("t", "where is the boat?")
    assert list(engine.reindex_work().gate.queries("t")) == ["what does Ana drink?", "where is the boat?"]
    assert list(engine.reindex_work().gate.queries("other")) == []
