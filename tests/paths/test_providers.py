"""A provider that speaks the OpenAI protocol, chosen by settings alone: what becomes of memories when it misbehaves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from core.assembly import Engine, open_engine
from core.assembly.models import price_of
from core.batch.embed import Portion, Report, step
from core.doctor import examine
from core.errors import Misconfigured, Unavailable
from core.model.finding import Verdict
from core.model.memory import Draft
from core.settings import load_settings
from tests.openai_server import Fault, OpenAIServer, at_most, error_body, refusing

KEY = "sk-nobody-may-see-this"
ALL = Portion(tenant="t", records=10_000)


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    started = OpenAIServer()
    yield started
    started.stop()


@pytest.fixture
def fallback() -> Iterator[OpenAIServer]:
    """Another server with the same model: another endpoint is another space."""
    started = OpenAIServer()
    yield started
    started.stop()


@pytest.fixture
def chosen(server: OpenAIServer, database_url: str, valkey_url: str, tmp_path: Path) -> dict[str, Any]:
    """The settings of an engine that embeds by the server."""
    return {
        "home": tmp_path,
        "postgres_url": database_url,
        "redis_url": valkey_url,
        "embedding_provider": "openai",
        "embedding_model": "text-embedding-3-small",
        "embedding_dimensions": 64,
        "embedding_url": f"http://127.0.0.1:{server.server_port}/v1",
        "embedding_api_key": KEY,
        "embed_workers": 1,
        "retry_wait": 0,
    }


@pytest.fixture
def engine(chosen: dict[str, Any]) -> Iterator[Engine]:
    with open_engine(load_settings(**chosen)) as opened:
        yield opened


def remember(engine: Engine, count: int, text: str = "note number") -> None:
    list(engine.write_many("t", [Draft(id=f"m{n:03}", content=f"{text} {n}") for n in range(count)]))


def drain(engine: Engine) -> Report:
    return step(engine.embed_work(), ALL)


def test_memories_are_embedded_by_the_provider_and_found(engine: Engine, server: OpenAIServer) -> None:
    engine.write("t", Draft(id="tea", content="Ana prefers green tea"))
    engine.write("t", Draft(id="car", content="the red car broke down"))
    assert drain(engine).embedded == 2
    assert [one.memory.id for one in engine.search("t", "green tea", 1).found] == ["tea"]
    asked = server.requests[0]
    assert (asked.body["model"], asked.body["dimensions"]) == ("text-embedding-3-small", 64)
    assert asked.headers["authorization"] == f"Bearer {KEY}"
    engine.search("t", "green tea", 1)
    assert len(server.requests) == 2  # the query's vector was kept


def test_what_it_took_is_told_with_its_price(engine: Engine) -> None:
    remember(engine, 30)
    drain(engine)
    (day,) = engine.uses(1)
    assert (day.provider, day.model, day.use.texts) == ("openai", "text-embedding-3-small", 30)
    assert day.use.tokens > 0
    assert day.money(price_of(day.provider, day.model)) == pytest.approx(day.use.tokens * 0.02 / 1e6)


def test_a_text_it_always_refuses_is_set_aside_with_its_words_and_the_queue_moves_on(
    engine: Engine, server: OpenAIServer
) -> None:
    """Item 5 of 64, first in every run."""
    remember(engine, 64)
    engine.write("t", Draft(id="m005", content="a POISON pill"))
    server.told = refusing("POISON")
    report = drain(engine)
    assert (report.embedded, list(report.set_aside)) == (63, ["m005"])
    assert "SECRET-INPUT" not in report.set_aside["m005"]
    assert len(server.requests) <= 2 * 8
    assert drain(engine).worked == 0


PERSONS: list[tuple[int, Any, str]] = [
    (401, error_body("invalid_api_key"), "auth"),
    (403, error_body(), "auth"),
    (404, error_body("model_not_found"), "model"),
    (429, error_body("insufficient_quota", "insufficient_quota"), "quota"),
]


@pytest.mark.parametrize(("status", "body", "reason"), PERSONS)
def test_what_a_person_has_to_mend_stops_at_once_and_sets_nothing_aside(
    engine: Engine, server: OpenAIServer, status: int, body: Any, reason: str
) -> None:
    remember(engine, 20)
    server.told = lambda _: Fault(status=status, body=body)
    with pytest.raises(Misconfigured) as raised:
        drain(engine)
    assert raised.value.details["reason"] == reason
    assert KEY not in str(raised.value)
    assert len(server.requests) == 1
    assert [(one.waiting, one.set_aside) for one in engine.backlog()] == [(20, 0)]
    server.told = lambda _: None
    assert drain(engine).embedded == 20


def test_a_rate_limit_is_waited_for_and_nothing_goes_twice(engine: Engine, server: OpenAIServer) -> None:
    refusals = iter([Fault(status=429, headers={"retry-after-ms": "50"}, body=error_body("rate_limit_exceeded"))] * 3)
    server.told = lambda _: next(refusals, None)
    remember(engine, 20)
    report = drain(engine)
    assert (report.embedded, report.postponed) == (20, None)
    assert len(server.requests) == 4


def test_a_server_that_takes_16_a_call_is_found_out(engine: Engine, server: OpenAIServer) -> None:
    server.told = at_most(16)
    remember(engine, 128)
    assert drain(engine).embedded == 128
    before = len(server.requests)
    remember(engine, 32, "other words")
    drain(engine)
    assert len(server.requests) - before == 2


ANSWERS: list[Callable[[list[dict[str, Any]]], list[dict[str, Any]]]] = [
    lambda rows: rows[:-1],
    lambda rows: rows[:1],
    lambda rows: [],
    lambda rows: [rows[0], *rows[:-1]],
]


@pytest.mark.parametrize("wrong", ANSWERS, ids=["n-1", "one for all", "none", "an index twice"])
def test_an_answer_that_cannot_be_used_stores_nothing_and_marks_nothing_done(
    engine: Engine, server: OpenAIServer, wrong: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]
) -> None:
    remember(engine, 5)
    server.told = lambda _: Fault(rows=wrong)
    assert drain(engine).postponed
    assert [(one.waiting, one.set_aside) for one in engine.backlog()] == [(5, 0)]
    server.told = lambda _: None
    assert engine.safekeeping.index_health(["t"])[0].points == 0


def put(value: Any) -> Callable[[list[dict[str, Any]]], list[dict[str, Any]]]:
    """Another embedding in the second row."""
    return lambda rows: [row | {"embedding": value} if row["index"] == 1 else row for row in rows]


BAD_ROWS = {
    "all zeros": [0.0] * 64,
    "NaN": [float("nan")] + [0.1] * 63,
    "a null component": [None] + [0.1] * 63,
    "null": None,
    "wrong width": [0.1] * 63,
}


@pytest.mark.parametrize("value", BAD_ROWS.values(), ids=BAD_ROWS)
def test_all_zeros_nan_a_null_component_and_a_wrong_width_are_refused_before_upsert(
    engine: Engine, server: OpenAIServer, value: Any
) -> None:
    remember(engine, 5)
    server.told = lambda body: Fault(rows=put(value)) if len(body["input"]) == 5 else None
    report = drain(engine)
    assert (report.embedded, list(report.set_aside)) == (4, ["m001"])
    assert engine.safekeeping.index_health(["t"])[0].points == 4  # and no zeros in the place of the missing one
    server.told = lambda _: None
    assert list(engine.retry("t")) == ["m001"]
    assert drain(engine).embedded == 1


def test_answers_in_any_order_are_placed_by_index(engine: Engine, server: OpenAIServer) -> None:
    server.told = lambda body: Fault(rows=lambda rows: rows[::-1]) if len(body["input"]) > 1 else None
    for name, text in (("tea", "green tea"), ("car", "red car"), ("sea", "blue sea")):
        engine.write("t", Draft(id=name, content=text))
    drain(engine)
    for name, text in (("tea", "green tea"), ("car", "red car"), ("sea", "blue sea")):
        assert engine.search("t", text, 1).found[0].memory.id == name


def test_another_width_or_model_is_another_space_and_a_spelling_is_not(
    engine: Engine, chosen: dict[str, Any], server: OpenAIServer
) -> None:
    remember(engine, 3)
    drain(engine)
    spelt = chosen | {"embedding_model": "openai/text-embedding-3-small"}
    with open_engine(load_settings(**spelt)) as same:
        assert len(same.search("t", "note number 1", 3).found) == 3
    for other in ({"embedding_dimensions": 32}, {"embedding_model": "text-embedding-3-large"}):
        with open_engine(load_settings(**(chosen | other))) as changed:
            before = len(server.requests)
            found = changed.search("t", f"note number {len(other)} {before}", 3).found
            assert len(found) == 3  # by the model the tenant stands in
            asked = [(one.body["model"], one.body["dimensions"]) for one in server.requests[before:]]
            assert asked == [("text-embedding-3-small", 64)]
            (finding,) = [one for one in examine(changed.settings) if one.check == "space"]
            assert (finding.verdict, "reindex" in finding.advice) == (Verdict.WARNING, True)
    elsewhere = chosen | {"embedding_provider": "wordllama", "embedding_model": None}
    with open_engine(load_settings(**elsewhere)) as changed:
        before = len(server.requests)
        answer = changed.search("t", "note number 3", 3)  # by its words alone, and it says so
        assert len(server.requests) == before
        assert "reindex" in (answer.degraded or "")


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"embedding_provider": "nobody"}, "provider"),
        ({"embedding_model": None}, "embedding_model"),
        ({"embedding_model": "a-model-of-our-own", "embedding_dimensions": None}, "dimensions"),
        ({"embedding_url": None, "embedding_api_key": None}, "api_key"),
        ({"embedding_url": "not a url"}, "base_url"),
    ],
)
def test_settings_that_cannot_be_are_refused_by_name(chosen: dict[str, Any], wrong: dict[str, Any], named: str) -> None:
    with pytest.raises(Misconfigured, match=named) as raised, open_engine(load_settings(**(chosen | wrong))):
        pass
    assert KEY not in str(raised.value)


def test_a_vector_that_was_paid_for_and_could_not_be_written_is_not_paid_for_again(
    engine: Engine, server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*given: object) -> None:
        raise Unavailable("the index is away")

    remember(engine, 20)
    with monkeypatch.context() as context:
        context.setattr(engine._indexer._index, "upsert", fail)
        assert drain(engine).postponed
    paid = len(server.texts)
    assert paid == 20
    report = drain(engine)
    assert (report.reused, report.embedded, len(server.texts)) == (20, 0, paid)
    (day,) = engine.uses(1)
    assert day.use.reused_texts == 20  # `memory costs` tells what that saved
    assert (day.saved(price_of(day.provider, day.model)) or 0) > 0


def test_a_text_that_is_deleted_and_comes_back_is_not_paid_for_again(engine: Engine, server: OpenAIServer) -> None:
    engine.write("t", Draft(id="a", content="green tea"))
    drain(engine)
    engine.delete("t", "a")
    drain(engine)
    engine.write("t", Draft(id="b", content="green tea"))
    assert drain(engine).reused == 1
    assert server.texts == ["green tea"]


def test_a_query_is_asked_once_also_without_a_cache(chosen: dict[str, Any], server: OpenAIServer) -> None:
    with open_engine(load_settings(**(chosen | {"cache": False, "redis_url": None}))) as alone:
        alone.write("t", Draft(id="tea", content="Ana prefers green tea"))
        drain(alone)
        before = len(server.requests)
        for limit in (1, 2, 3):
            assert alone.search("t", "green tea", limit).found
        assert len(server.requests) == before + 1
        alone.search("u", "green tea", 1)  # another tenant's: nothing of it is known
        assert len(server.requests) == before + 1  # which has no index to search


def test_a_fallback_provider_serves_only_a_tenant_whose_generation_was_built_with_it(
    chosen: dict[str, Any], server: OpenAIServer, fallback: OpenAIServer
) -> None:
    second = {
        "provider": "openai",
        "model": chosen["embedding_model"],
        "dimensions": 64,
        "url": fallback.url,
        "api_key": KEY,
    }
    on_second = chosen | {"embedding_url": fallback.url}
    with open_engine(load_settings(**on_second)) as other:
        other.write("u", Draft(id="tea", content="Bea prefers black tea"))
        step(other.embed_work(), Portion(tenant="u", records=10))
    with open_engine(load_settings(**(chosen | {"embedding_models": {"second": second}}))) as both:
        both.write("t", Draft(id="tea", content="Ana prefers green tea"))
        drain(both)
        server.told = lambda _: Fault(reset=True)
        both.write("t", Draft(id="car", content="the red car"))
        both.write("u", Draft(id="car", content="the blue car"))
        seen = len(fallback.texts)
        assert drain(both).postponed  # the tenant's own provider is away: nobody else is asked
        assert len(fallback.texts) == seen
        assert step(both.embed_work(), Portion(tenant="u", records=10)).embedded == 1
        assert both.search("u", "what is blue?", 1).degraded is None
        assert fallback.texts[seen:] == ["the blue car", "what is blue?"]


def test_a_query_never_falls_back_to_another_space(
    chosen: dict[str, Any], server: OpenAIServer, fallback: OpenAIServer
) -> None:
    second = {
        "provider": "openai",
        "model": chosen["embedding_model"],
        "dimensions": 64,
        "url": fallback.url,
        "api_key": KEY,
    }
    with open_engine(load_settings(**(chosen | {"embedding_models": {"second": second}}))) as both:
        both.write("t", Draft(id="tea", content="Ana prefers green tea"))
        drain(both)
        for fault in (Fault(reset=True), Fault(status=503), Fault(status=401, body=error_body("invalid_api_key"))):
            server.told = lambda _, fault=fault: fault
            answer = both.search("t", f"tea of {fault.status} and {fault.reset}", 1)
            assert [one.memory.id for one in answer.found] == ["tea"]  # by its words alone, and it says so
            assert answer.degraded
            assert [(leg.name, leg.problem is None) for leg in answer.legs] == [("vector", False), ("keyword", True)]
        assert fallback.requests == []
