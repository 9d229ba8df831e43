"""The embedder over HTTP: what each answer of a provider means, right or wrong."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import numpy as np
import pytest

from core.adapters import openai_answers
from core.adapters.openai_embedder import OpenAIEmbedder
from core.adapters.openai_failures import LONGEST_WAIT, retry_after
from core.errors import BadAnswer, EngineError, Misconfigured, Overloaded, Refused, Unavailable
from core.index.packing import LearnedLimits
from core.index.vectors import embed_all
from core.model.tokens import estimated_tokens
from tests.contract.openai_calls import TEXTS, failure, options
from tests.openai_server import Fault, OpenAIServer, Rows, at_most, error_body, in_base64, refusing

NOW = datetime(2026, 11, 30, 12, 0, 0, tzinfo=UTC)


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    opened = OpenAIServer()
    yield opened
    opened.stop()


@pytest.fixture
def embedder(server: OpenAIServer) -> Iterator[OpenAIEmbedder]:
    opened = OpenAIEmbedder(options(server))
    yield opened
    opened.close()


def swapped(index: int, value: Any) -> Callable[[Rows], Rows]:
    """Puts a value in place of one row's embedding."""
    return lambda rows: [{**row, "embedding": value} if row["index"] == index else row for row in rows]


# Answers.


def test_index_2_0_1_is_placed_by_index(server: OpenAIServer, embedder: OpenAIEmbedder) -> None:
    expected = embedder.embed(TEXTS, "document").vectors
    server.told = lambda body: Fault(rows=lambda rows: [rows[2], rows[0], rows[1]])
    np.testing.assert_array_equal(embedder.embed(TEXTS, "document").vectors, expected)


@pytest.mark.parametrize("index", [0, -1, 3, None, "1", True, 1.0])
def test_a_duplicate_missing_or_foreign_index_is_refused(
    server: OpenAIServer, embedder: OpenAIEmbedder, index: Any
) -> None:
    def renamed(rows: Rows) -> Rows:
        return [rows[0], {**rows[1], "index": index}, rows[2]]

    found = failure(server, embedder, Fault(rows=renamed))
    assert isinstance(found, BadAnswer)
    assert "index" not in found.details


def test_embeddings_without_an_index_are_refused_but_for_the_first(
    server: OpenAIServer, embedder: OpenAIEmbedder
) -> None:
    def without(*places: int) -> Fault:
        return Fault(
            rows=lambda rows: [{"embedding": row["embedding"]} if at in places else row for at, row in enumerate(rows)]
        )

    for places in ((1,), (2,), (0, 1), (0, 1, 2)):
        assert isinstance(failure(server, embedder, without(*places)), BadAnswer)
    server.told = lambda body: None
    expected = embedder.embed(TEXTS, "document").vectors
    server.told = lambda body: without(0)  # as Gemini does
    np.testing.assert_array_equal(embedder.embed(TEXTS, "document").vectors, expected)


WRONG_WHOLES: dict[str, Fault] = {
    "n - 1 vectors": Fault(rows=lambda rows: rows[:-1]),
    "n + 1 vectors": Fault(rows=lambda rows: [*rows, {**rows[0], "index": 3}]),
    "one vector for any list": Fault(rows=lambda rows: rows[:1]),
    "data: [] with status 200": Fault(rows=lambda rows: []),
    "no data": Fault(body={"object": "list"}),
    "data is null": Fault(body={"data": None}),
    "data is no list": Fault(body={"data": {"0": [1.0]}}),
    "rows are no objects": Fault(body={"data": [1, 2, 3]}),
    "a list": Fault(body=[]),
    "html with status 200": Fault(body=b"<html><body>Sign in</body></html>", headers={"Content-Type": "text/html"}),
    "truncated JSON": Fault(body=b'{"data": [{"index": 0, "embedding": [0.1, 0.'),
    "nothing at all": Fault(body=b""),
    "no UTF-8": Fault(body=b'{"data": "\xff\xfe"}'),
    "deep nesting": Fault(body=b"[" * 100_000),
    "an error with status 200": Fault(body=error_body("server_error")),
    "all rows of another width": Fault(rows=lambda rows: [{**row, "embedding": [1.0] * 31} for row in rows]),
    "all rows zero": Fault(rows=lambda rows: [{**row, "embedding": [0.0] * 32} for row in rows]),
}


@pytest.mark.parametrize("fault", WRONG_WHOLES.values(), ids=WRONG_WHOLES.keys())
def test_an_answer_that_is_wrong_as_a_whole_blames_no_text(
    server: OpenAIServer, embedder: OpenAIEmbedder, fault: Fault
) -> None:
    found = failure(server, embedder, fault)
    assert isinstance(found, BadAnswer)
    assert "index" not in found.details


WRONG_ROWS: dict[str, Any] = {
    "all zeros": [0.0] * 32,
    "NaN": [1.0] * 31 + [float("nan")],
    "infinity": [1.0] * 31 + [float("inf")],
    "beyond float32": [1.0] * 31 + [1e300],
    "an endless integer": [1.0] * 31 + [10**400],
    "null component": [1.0] * 31 + [None],
    "text component": ["1.0"] * 32,
    "true and false": [True] * 32,
    "nested": [[1.0] * 32],
    "wrong width": [1.0] * 31,
    "empty": [],
    "null": None,
    "an object": {"0": 1.0},
    "no base64": "%%%%",
    "base64 of zeros": "AAAA" * 42 + "AAA=",
    "base64 of half a number": "AAAA" * 42,
    "base64 of another width": "AACAPwAAgD8=",
}


@pytest.mark.parametrize("value", WRONG_ROWS.values(), ids=WRONG_ROWS.keys())
def test_one_row_that_cannot_be_used_is_named(server: OpenAIServer, embedder: OpenAIEmbedder, value: Any) -> None:
    found = failure(server, embedder, Fault(rows=swapped(1, value)))
    assert isinstance(found, BadAnswer)
    assert (found.details["index"], found.details["where"]) == (1, "texts[1]")


def test_zeros_for_the_only_text_blame_it_and_another_width_does_not(
    server: OpenAIServer, embedder: OpenAIEmbedder
) -> None:
    assert failure(server, embedder, Fault(rows=swapped(0, [0.0] * 32)), ["one"]).details["index"] == 0
    assert "index" not in failure(server, embedder, Fault(rows=swapped(0, [1.0] * 33)), ["one"]).details


def test_base64_and_floats_are_taken_whatever_was_asked(server: OpenAIServer, embedder: OpenAIEmbedder) -> None:
    asked = OpenAIEmbedder(options(server, encoding_format="base64"))
    plain, packed = embedder.embed(TEXTS, "document").vectors, asked.embed(TEXTS, "document").vectors
    assert [request.body["encoding_format"] for request in server.requests] == ["float", "base64"]
    np.testing.assert_allclose(plain, packed, atol=1e-7)
    rows = [server.vector(text, 32, "words") for text in TEXTS]
    floats = {"data": [{"index": at, "embedding": row} for at, row in enumerate(rows)]}
    mixed = {"data": [{"index": at, "embedding": in_base64(row) if at else row} for at, row in enumerate(rows)]}
    for sender, whole in ((asked, floats), (embedder, mixed)):
        server.told = lambda body, whole=whole: Fault(body=whole)  # type: ignore[misc]
        np.testing.assert_allclose(sender.embed(TEXTS, "document").vectors, plain, atol=1e-7)


def test_rows_are_made_length_one_if_that_is_chosen(server: OpenAIServer) -> None:
    for factor in (3.0, 1e-30, 1e30):
        server.told = lambda body, by=factor: Fault(rows=swapped(0, [by, by] + [0.0] * 30))  # type: ignore[misc]
        found = OpenAIEmbedder(options(server)).embed(["one"], "document").vectors
        np.testing.assert_allclose(found[0, :2], np.sqrt(0.5), atol=1e-6)
        as_it_is = OpenAIEmbedder(options(server, normalise=False)).embed(["one"], "document").vectors
        np.testing.assert_allclose(as_it_is[0, :2], factor, rtol=1e-6)


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        ({"prompt_tokens": 17, "total_tokens": 20}, 17),
        ({"total_tokens": 20}, 20),
        ({"prompt_tokens": None, "total_tokens": 20}, 20),
        ({"prompt_tokens": 0}, None), ({"prompt_tokens": -1}, None), ({"prompt_tokens": True}, None),
        ({}, None), (None, None), ([], None),
    ],
)  # fmt: skip
def test_tokens_are_what_was_counted_or_an_estimate(
    server: OpenAIServer, embedder: OpenAIEmbedder, usage: Any, tokens: int | None
) -> None:
    server.told = lambda body: Fault(whole=lambda whole: {**whole, "usage": usage})
    texts = ["x", "four bytes a token", "你好"]
    assert embedder.embed(texts, "document").tokens == (tokens or sum(map(estimated_tokens, texts)))


def test_another_models_name_is_noted_once(
    server: OpenAIServer, embedder: OpenAIEmbedder, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "core.adapters.openai_embedder")
    embedder.embed(TEXTS, "document")
    assert not caplog.records
    server.told = lambda body: Fault(whole=lambda whole: {**whole, "model": "words-2024"})
    for _ in range(2):
        assert embedder.embed(TEXTS, "document").vectors.shape == (3, 32)
    assert ["words-2024" in record.message for record in caplog.records if record.name.startswith("core.")] == [True]


def test_an_answer_without_end_is_not_read(server: OpenAIServer, embedder: OpenAIEmbedder) -> None:
    found = failure(server, embedder, Fault(body=b" " * 1_100_000))
    assert isinstance(found, BadAnswer)
    assert "bytes" in found.message


def test_answers_are_read_without_the_network() -> None:
    read = openai_answers.read_answer(
        b'{"data": [{"index": 0, "embedding": [3, 4]}], "model": null}', count=1, width=2, provider="local"
    )
    assert (read.tokens, read.vectors.tolist()) == (None, [[3.0, 4.0]])
    np.testing.assert_allclose(openai_answers.normalised(read.vectors), [[0.6, 0.8]], atol=1e-6)


# Failures.

QUOTA = {"code": "insufficient_quota", "kind": "insufficient_quota"}
FAILURES: list[tuple[int, Any, type[EngineError], str | None]] = [
    (401, error_body("invalid_api_key"), Misconfigured, "auth"),
    (403, error_body("unsupported_country_region_territory"), Misconfigured, "auth"),
    (401, b"", Misconfigured, "auth"),
    (400, [{"error": {"code": 400, "details": [{"reason": "API_KEY_INVALID"}]}}], Misconfigured, "auth"),
    (404, error_body("model_not_found"), Misconfigured, "model"),
    (404, b"<html>", Misconfigured, "model"),
    (404, {"error": {"code": "DeploymentNotFound"}}, Misconfigured, "model"),
    (405, b"", Misconfigured, "model"),
    (302, b"", Misconfigured, "model"),
    (400, error_body(None, param="dimensions"), Misconfigured, "model"),
    (402, b"", Misconfigured, "quota"),
    (429, error_body(**QUOTA), Misconfigured, "quota"),
    (429, {"error": {"error": error_body(**QUOTA)}}, Misconfigured, "quota"),
    (429, {"error": {"message": "x", "type": "insufficient_quota"}}, Misconfigured, "quota"),
    (429, [{"error": {"innererror": {"code": "insufficient_quota"}}}], Misconfigured, "quota"),
    (429, {"error": {"message": "insufficient_quota", "code": "rate_limit_exceeded"}}, Overloaded, None),
    (429, error_body("rate_limit_exceeded"), Overloaded, None),
    (429, b"slow down", Overloaded, None),
    (503, b"", Overloaded, None),
    (529, error_body("overloaded_error"), Overloaded, None),
    (400, error_body(), Refused, None),
    (400, error_body(param="input"), Refused, None),
    (400, b"no JSON", Refused, None),
    (422, {"detail": [{"type": "missing", "loc": ["body", "x"], "input": {"code": "SECRET-INPUT"}}]}, Refused, None),
    (400, error_body("context_length_exceeded"), Refused, "size"),
    (400, error_body("max_tokens_per_request", "max_tokens_per_request"), Refused, "size"),
    (422, {"error": {"type": "request_too_large"}}, Refused, "size"),
    (400, {"object": "error", "type": "invalid_request_prompt", "code": "3210"}, Refused, "size"),
    (413, b"<html>413 Request Entity Too Large</html>", Refused, "size"),
    (408, b"", Unavailable, None),
    (409, error_body(), Unavailable, None),
    (424, {"error": "backend", "error_type": "Backend"}, Unavailable, None),
    (500, error_body("context_length_exceeded"), Unavailable, None),
    (500, b"<html>", Unavailable, None),
    (502, b"", Unavailable, None),
    (504, b"", Unavailable, None),
]  # fmt: skip


@pytest.mark.parametrize(("status", "body", "kind", "reason"), FAILURES)
def test_errors_by_status_and_code(
    server: OpenAIServer, embedder: OpenAIEmbedder, status: int, body: Any, kind: type[EngineError], reason: str | None
) -> None:
    found = failure(server, embedder, Fault(status=status, body=body, headers={"Location": "http://127.0.0.1:1/"}))
    assert (type(found), found.details.get("reason")) == (kind, reason)
    assert f"HTTP {status}" in found.message
    assert len(found.message) < 200
    assert "index" not in found.details
    assert len(server.requests) == 1, "one layer retries, and it is not this one"


def test_the_providers_own_names_are_in_the_message(server: OpenAIServer, embedder: OpenAIEmbedder) -> None:
    body = error_body("content_policy", "a sentence with SECRET-INPUT in it")
    found = failure(server, embedder, Fault(status=400, body=body))
    assert found.message == "local refuses what was sent (HTTP 400, content_policy)"


def test_a_text_that_is_named_by_its_place_is_to_blame(server: OpenAIServer, embedder: OpenAIEmbedder) -> None:
    for param, index in {"input[1]": 1, "$.input[2]": 2, "input.0": 0}.items():
        found = failure(server, embedder, Fault(status=400, body=error_body(param=param)))
        assert (type(found), found.details["index"]) == (Refused, index)
    assert "index" not in failure(server, embedder, Fault(status=400, body=error_body(param="input[7]"))).details


def test_a_text_that_is_always_refused_with_400_stops_only_requests_it_is_in(
    server: OpenAIServer, embedder: OpenAIEmbedder
) -> None:
    server.told = refusing("barks")
    with pytest.raises(Refused):
        embedder.embed(TEXTS, "document")
    assert embedder.embed([TEXTS[0], TEXTS[2]], "document").vectors.shape == (2, 32)


HINTS: list[tuple[dict[str, str], float | None]] = [
    ({}, None),
    ({"retry-after": "7"}, 7.0),
    ({"retry-after": "0.5"}, 0.5),
    ({"retry-after": "0"}, 0.0),
    ({"retry-after-ms": "1500", "retry-after": "7"}, 1.5),
    ({"retry-after": "999999"}, LONGEST_WAIT),
    ({"retry-after": "inf"}, LONGEST_WAIT),
    ({"retry-after": "-5"}, None),
    ({"retry-after": "nan"}, None),
    ({"retry-after": "soon"}, None),
    ({"retry-after": ""}, None),
    ({"retry-after": format_datetime(NOW + timedelta(seconds=20), usegmt=True)}, 20.0),
    ({"retry-after": format_datetime(NOW - timedelta(seconds=20), usegmt=True)}, 0.0),
    ({"retry-after": format_datetime(NOW + timedelta(days=20), usegmt=True)}, LONGEST_WAIT),
    (
        {
            "retry-after": format_datetime(NOW + timedelta(hours=1, seconds=9), usegmt=True),
            "date": format_datetime(NOW + timedelta(hours=1), usegmt=True),
        },
        9.0,
    ),
]


@pytest.mark.parametrize(("headers", "seconds"), HINTS)
def test_retry_after_in_seconds_as_a_date_in_ms_none_999999(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers, NOW) == seconds


def test_the_hint_arrives(server: OpenAIServer, embedder: OpenAIEmbedder) -> None:
    for status in (429, 503, 529):
        found = failure(server, embedder, Fault(status=status, body=b"", headers={"Retry-After": "12"}))
        assert isinstance(found, Overloaded)
        assert found.retry_after == 12
    google = {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "details": [{"retryDelay": "34.5s"}]}}
    assert failure(server, embedder, Fault(status=429, body=google)).details["retry_after"] == 34.5


# Many texts, through the packing that calls the embedder.


def test_item_5_of_64_is_always_refused_with_400(server: OpenAIServer, embedder: OpenAIEmbedder) -> None:
    server.told = refusing("poison")
    texts = {str(number): "poison" if number == 5 else f"memory number {number}" for number in range(64)}
    done = embed_all(embedder, texts, LearnedLimits())
    assert (len(done.vectors), done.problem) == (63, None)
    assert done.refused == {"5": "local refuses what was sent (HTTP 400, invalid_request_error)"}


def test_a_server_that_takes_16_a_call_is_asked_for_no_more_in_the_end(
    server: OpenAIServer, embedder: OpenAIEmbedder
) -> None:
    server.told = at_most(16)
    texts = {str(number): f"memory number {number}" for number in range(64)}
    learned = LearnedLimits()
    assert len(embed_all(embedder, texts, learned).vectors) == 64
    server.requests.clear()
    assert len(embed_all(embedder, texts, learned).vectors) == 64
    assert max(len(request.texts) for request in server.requests) <= 16


def test_insufficient_quota_is_one_call_and_blames_no_item(server: OpenAIServer, embedder: OpenAIEmbedder) -> None:
    server.told = lambda body: Fault(status=429, body=error_body(**QUOTA))
    done = embed_all(embedder, {str(number): "a memory" for number in range(640)}, LearnedLimits())
    assert isinstance(done.problem, Misconfigured)
    assert (done.problem.details["reason"], done.refused, done.vectors, len(server.requests)) == ("quota", {}, {}, 1)
