"""Batch jobs at a provider: found again by name, told apart, and read whatever their files hold."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from core.adapters import openai_batches
from core.adapters.embedding_presets import options_for, preset_of, providers
from core.adapters.openai_batches import OpenAIBatches
from core.errors import BadAnswer, EngineError, Misconfigured, NotFound, Overloaded, Refused, Unavailable
from core.ports import BatchState
from tests.contract.openai_calls import KEY, options
from tests.openai_batches import Batches
from tests.openai_server import Fault, OpenAIServer, error_body

NOW = datetime.now(UTC)


@pytest.fixture
def provider() -> Iterator[Batches]:
    server = OpenAIServer()
    yield Batches(server)
    server.stop()


@pytest.fixture
def batches(provider: Batches) -> Iterator[OpenAIBatches]:
    opened = OpenAIBatches(replace(options(provider.server), batch_inputs=100, batch_bytes=10_000))
    yield opened
    opened.close()


def submitted(batches: OpenAIBatches, name: str, *texts: str) -> str:
    lines = b"".join(batches.line(f"key-{number}", text) for number, text in enumerate(texts or ("text",)))
    return batches.submit(name, io.BytesIO(lines))


def test_openai_alone_is_known_to_take_batch_jobs_for_embeddings() -> None:
    assert [name for name in providers() if preset_of(name).batch_inputs] == ["openai"]
    known = options_for("openai", "text-embedding-3-small", api_key=KEY)
    assert (known.batch_inputs, known.batch_bytes) == (50_000, 200_000_000)
    azure = options_for("azure", "text-embedding-3-small", base_url="https://ours.example.org", api_key=KEY)
    with pytest.raises(Misconfigured, match="azure has no batch jobs"):
        OpenAIBatches(azure)


def test_a_job_is_found_among_many_by_its_name(provider: Batches, batches: OpenAIBatches) -> None:
    ids = {name: submitted(batches, name) for name in [f"memory-{number}.jsonl" for number in range(7)]}
    provider.page = 2
    for name, job in ids.items():
        assert batches.found(name, NOW) == job
    assert batches.found("memory-unknown.jsonl", NOW) is None
    assert len(provider.batches) == 7


def test_a_file_without_a_job_gets_its_job_once(provider: Batches, batches: OpenAIBatches) -> None:
    submitted(batches, "memory-a.jsonl")
    provider.batches.clear()
    job = batches.found("memory-a.jsonl", NOW)
    assert list(provider.batches) == [job]
    assert batches.found("memory-a.jsonl", NOW) == job


def test_what_is_older_than_the_job_is_not_looked_through(provider: Batches, batches: OpenAIBatches) -> None:
    submitted(batches, "memory-a.jsonl")
    asked = len(provider.server.requests)
    assert batches.found("memory-a.jsonl", NOW + timedelta(days=2)) is None
    assert len(provider.server.requests) == asked + 2


def test_nobody_says_there_is_no_such_job_before_all_were_looked_at(
    provider: Batches, batches: OpenAIBatches, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(6):
        submitted(batches, f"memory-{number}.jsonl")
    provider.page = 1
    monkeypatch.setattr(openai_batches, "PAGES", 3)
    with pytest.raises(Unavailable, match="too many"):
        batches.found("memory-unknown.jsonl", NOW)


def test_results_say_what_became_of_each_line(provider: Batches, batches: OpenAIBatches) -> None:
    fates = ["fine", "400", "429", "401", "zeros", "short", "batch_expired", "missing", "413"]
    job = submitted(batches, "memory-a.jsonl", *[f"text {number}" for number in range(len(fates))])
    assert batches.poll(job) == BatchState(phase="running", sent="file-0")
    provider.finish(fate=lambda number, text: fates[number])
    found = {one.key: one for one in batches.results(batches.poll(job))}
    kinds = {key: type(one.problem) for key, one in found.items()}
    wanted = [type(None), Refused, Overloaded, Misconfigured, BadAnswer, BadAnswer, Unavailable, None, Refused]
    assert kinds == {f"key-{number}": kind for number, kind in enumerate(wanted) if kind is not None}
    assert found["key-0"].vector is not None
    assert (found["key-0"].vector.shape, found["key-0"].tokens) == ((32,), 2)
    said = " ".join(one.problem.message for one in found.values() if one.problem is not None)
    assert "SECRET-INPUT" not in said


@pytest.mark.parametrize(
    "junk",
    [b"", b"\n\n", b"no json\n", b"[]\n", b'{"custom_id": 7}\n', b'{"response": {"status_code": 200}}\n', b"\xff\n"],
)
def test_lines_that_are_no_results_are_left_out(provider: Batches, batches: OpenAIBatches, junk: bytes) -> None:
    job = submitted(batches, "memory-a.jsonl")
    provider.finish()
    state = batches.poll(job)
    provider.files[state.files[0]] = junk + provider.files[state.files[0]] + junk
    assert [one.key for one in batches.results(state)] == ["key-0"]


def test_a_line_without_end_is_not_read_for_ever(provider: Batches, batches: OpenAIBatches) -> None:
    job = submitted(batches, "memory-a.jsonl")
    provider.finish()
    state = batches.poll(job)
    provider.files[state.files[0]] = b"x" * 1_000_000
    with pytest.raises(BadAnswer):
        list(batches.results(state))


def test_a_failed_job_says_why_in_short_names(provider: Batches, batches: OpenAIBatches) -> None:
    job = submitted(batches, "memory-a.jsonl")
    provider.finish("failed", code="token_limit_exceeded")
    state = batches.poll(job)
    assert (state.phase, state.reason) == ("failed", "token_limit_exceeded")


def test_what_is_not_there_is_told_apart_from_a_wrong_address(provider: Batches, batches: OpenAIBatches) -> None:
    with pytest.raises(NotFound):
        batches.poll("batch_unknown")
    with pytest.raises(NotFound):
        list(batches.results(BatchState(phase="completed", files=("file-unknown",))))
    batches.cancel("batch_unknown")
    batches.discard(BatchState(phase="completed", files=("file-unknown",), sent="file-gone"))
    provider.server.routes.clear()
    with pytest.raises(Misconfigured, match="address"):
        submitted(batches, "memory-a.jsonl")


@pytest.mark.parametrize("ending", ["completed", "cancelled"])
def test_cancelling_what_has_ended_does_nothing(provider: Batches, batches: OpenAIBatches, ending: str) -> None:
    job = submitted(batches, "memory-a.jsonl")
    provider.finish(ending)
    batches.cancel(job)
    assert batches.poll(job).phase == ending


@pytest.mark.parametrize("body", [b"no json", {"status": "dreaming"}, [], {"id": 7}])
def test_answers_that_cannot_be_meant_are_refused(provider: Batches, batches: OpenAIBatches, body: Any) -> None:
    job = submitted(batches, "memory-a.jsonl")
    provider.told = lambda request: Fault(body=body)
    with pytest.raises(BadAnswer):
        batches.poll(job)
    with pytest.raises(BadAnswer):
        submitted(batches, "memory-b.jsonl")


@pytest.mark.parametrize("fault", [Fault(status=500, body=error_body()), Fault(status=401, body=error_body())])
def test_no_error_says_the_key_or_what_was_sent(provider: Batches, batches: OpenAIBatches, fault: Fault) -> None:
    provider.told = lambda request: fault
    with pytest.raises(EngineError) as raised:
        submitted(batches, "memory-a.jsonl", "a private text")
    shown = str(raised.value) + repr(raised.value.details)
    assert not any(secret in shown for secret in (KEY, "SECRET-INPUT", "private"))
    assert raised.value.__cause__ is None
