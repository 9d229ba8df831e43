"""The batch lane as flows: put in jobs, looked at, brought; what cannot go into one is said."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from core.assembly import open_engine
from core.settings import load_settings
from deployments.cli import app
from tests.openai_batches import Batches
from tests.openai_server import Fault, OpenAIServer, error_body

Remember = Callable[[str, int], None]


@pytest.fixture
def provider(home: object, monkeypatch: pytest.MonkeyPatch) -> Iterator[Batches]:
    """A provider with batch jobs, named in the environment."""
    server = OpenAIServer()
    monkeypatch.setenv("MEMORY_EMBEDDING_PROVIDER", "openai")
    monkeypatch.setenv("MEMORY_EMBEDDING_MODEL", "text-embedding-3-small")
    monkeypatch.setenv("MEMORY_EMBEDDING_DIMENSIONS", "32")
    monkeypatch.setenv("MEMORY_EMBEDDING_URL", server.url)
    monkeypatch.setenv("MEMORY_EMBEDDING_API_KEY", "k")
    yield Batches(server)
    server.stop()


def embed(**parameters: Any) -> Any:
    """Run the embed flow; the state it ends in."""
    from flows.embed import embed as flow

    return flow(**parameters, return_state=True)


def batch_lane() -> Any:
    """Run the flow; the state it ends in."""
    from flows.batch_lane import batch_lane as flow

    return flow(return_state=True)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments), prog_name="memory")


def waiting() -> dict[str, int]:
    with open_engine(load_settings()) as engine:
        return {one.tenant: one.waiting for one in engine.backlog()}


def test_jobs_are_sent_looked_at_and_brought(remember: Remember, provider: Batches) -> None:
    remember("anna", 25)
    remember("bert", 5)
    state = embed(lane="batch")
    assert (state.is_completed(), state.message) == (True, "completed, 30 in batch jobs")
    assert provider.server.texts == []
    state = batch_lane()
    assert (state.is_completed(), state.message) == (True, "completed, 2 of 2 jobs are under way")
    provider.finish()
    state = batch_lane()
    assert state.message == "completed, 0 of 2 jobs are under way, 30 vectors kept for the next embed run"
    state = embed()
    assert state.message == "completed"
    assert waiting() == {"anna": 0, "bert": 0}
    assert provider.server.texts == []
    assert batch_lane().message == "completed, no open jobs"


def test_a_model_without_batch_jobs_says_so_and_waits(remember: Remember) -> None:
    remember("anna", 3)
    state = embed(lane="batch")
    assert state.is_completed()
    assert state.message.startswith("completed, 3 of anna left: not for a batch job: the model has none")
    assert waiting() == {"anna": 3}


def test_a_job_that_cannot_be_asked_about_fails_the_run_and_not_the_others(
    remember: Remember, provider: Batches
) -> None:
    remember("anna", 3)
    remember("bert", 3)
    embed(lane="batch")
    provider.finish()
    first = next(iter(provider.batches))
    denied = Fault(status=401, body=error_body("invalid_api_key"))
    provider.told = lambda request: denied if request.path.endswith(first) else None
    state = batch_lane()
    assert state.is_failed()
    assert "refuses our key" in state.message
    assert [one.kept for one in state.result(raise_on_failure=False).details["followed"]] == [3]


def test_commands_tell_what_it_would_cost_list_and_cancel(remember: Remember, provider: Batches) -> None:
    remember("anna", 4)
    (estimate,) = json.loads(run("run", "embed", "--dry-run", "--json").stdout)
    assert (estimate["records"], estimate["texts"], estimate["tokens"], estimate["reusable"]) == (4, 4, 16, 0)
    assert estimate["cost"] == pytest.approx(16 * 0.02 / 1e6)
    assert estimate["batch_cost"] == pytest.approx(estimate["cost"] / 2)
    shown = run("run", "embed", "--dry-run")
    assert shown.exit_code == 0
    assert "cost in batch jobs" in shown.stdout, shown.stdout
    assert waiting() == {"anna": 4}
    assert provider.server.requests == []
    embed(lane="batch")
    (job,) = json.loads(run("batch", "list", "--json").stdout)
    assert (job["tenant"], job["state"], job["inputs"]) == ("anna", "submitted", 4)
    assert job["id"] in run("batch", "list").stdout
    assert run("batch", "cancel", "0" * 30).exit_code == 2
    assert run("batch", "cancel", job["id"][:8]).exit_code == 0
    assert [one["status"] for one in provider.batches.values()] == ["cancelling"]
    done = run("run", "batch-lane", "--json")
    assert (done.exit_code, json.loads(done.stdout)["failed"]) == (0, False)
    assert embed().message == "completed"
    assert len(provider.server.texts) == 4
    provider.finish("cancelled", fate=lambda number, text: "batch_cancelled")
    assert run("run", "batch-lane").exit_code == 0
    assert json.loads(run("batch", "list", "--json").stdout) == []
    assert [one["state"] for one in json.loads(run("batch", "list", "--all", "--json").stdout)] == ["cancelled"]


def reindex(**parameters: Any) -> Any:
    """Run the reindex flow by batch jobs; the state it ends in."""
    from flows.reindex import reindex as flow

    return flow(model="text-embedding-3-small", dimensions=48, lane="batch", **parameters, return_state=True)


def test_a_reindex_by_batch_jobs_ends_while_they_are_under_way_and_goes_on_when_run_again(
    remember: Remember, provider: Batches
) -> None:
    remember("anna", 25)
    embed()
    provider.server.requests.clear()
    state = reindex()
    assert (state.is_completed(), state.message) == (True, "anna: waits for batch jobs")
    assert reindex().message == "anna: waits for batch jobs"  # nothing is sent twice
    assert embed().message == "completed"
    assert len(provider.texts) == 25
    provider.finish()
    batch_lane()
    state = reindex()
    assert (state.is_completed(), state.message) == (True, "1 tenants: swapped")
    assert {one.body["input"][0] for one in provider.server.requests if "input" in one.body} <= set(provider.texts)
    with open_engine(load_settings()) as engine:
        assert engine.search("anna", "memory 7 of anna", 1).found[0].memory.id == "m7"


def test_a_reindex_by_batch_jobs_to_a_model_that_has_none_is_not_begun(remember: Remember) -> None:
    from flows.reindex import reindex as flow

    remember("anna", 3)
    state = flow(model="wordllama", dimensions=64, lane="batch", return_state=True)
    assert state.is_failed()
    assert "not known to have batch jobs" in state.message
    with open_engine(load_settings()) as engine:
        assert [one.number for one in engine.generations(["anna"])] == [1]


def test_the_dry_run_of_a_reindex_shows_what_both_lanes_cost(remember: Remember, provider: Batches) -> None:
    remember("anna", 4)
    asked = ["reindex", "--tenant", "anna", "--model", "text-embedding-3-small", "--dimensions", "48", "--dry-run"]
    (estimate,) = json.loads(run(*asked, "--json").stdout)["tenants"]
    assert estimate["batch_cost"] == pytest.approx(estimate["cost"] / 2) != 0
    shown = run(*asked).stdout
    assert "cost in batch jobs" in shown
    assert "in batch jobs 0.0000 USD" in shown
