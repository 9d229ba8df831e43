"""What a person sees of a run: names, tags, progress, closing tables and events, none with content of memories."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from prefect import flow
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterFlowRunId

from core.assembly import open_engine
from core.batch import reindex as chore
from core.settings import load_settings
from tasks.seen import Progress, key_of, reasons_of, said_of

Remember = Callable[[str, int], None]


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, dict[str, Any]]]:
    """The events that were told: name, tenant, figures."""
    from tasks import events as telling

    told: list[tuple[str, str, dict[str, Any]]] = []

    def keep(event: str, resource: dict[str, str], payload: dict[str, Any]) -> None:
        told.append((str(event), resource["memory.tenant"], payload))

    monkeypatch.setattr(telling, "emit_event", keep)
    return told


def artifacts_of(client: SyncPrefectClient, state: Any) -> dict[str, Any]:
    """The artifacts of a run by their keys; of several with one key the last."""
    chosen = ArtifactFilter(flow_run_id=ArtifactFilterFlowRunId(any_=[state.state_details.flow_run_id]))
    return {one.key or "": one for one in client.read_artifacts(artifact_filter=chosen)}


def run_of(client: SyncPrefectClient, state: Any) -> Any:
    """The run that ended in this state."""
    return client.read_flow_run(state.state_details.flow_run_id)


def test_an_embed_run_shows_whose_how_much_how_far_and_what_was_set_aside(
    server: SyncPrefectClient,
    remember: Remember,
    set_aside_one: Callable[[str, str], None],
    events: list[tuple[str, str, dict[str, Any]]],
) -> None:
    from flows.embed import embed

    remember("anna", 25)
    remember("bert", 2)
    set_aside_one("bert", "m1")
    state = embed(return_state=True)
    run = run_of(server, state)
    assert run.name == "embed: anna, bert, 27 entries"
    assert {"chore:embed", "tenant:anna", "tenant:bert"} <= set(run.tags)
    shown = artifacts_of(server, state)
    assert shown["embed-progress"].description.startswith("embed: 27 of 27 (100 %)")
    rows = {row["tenant"]: row for row in json.loads(shown["embed-report"].data)}
    assert (rows["anna"]["embedded"], rows["bert"]["embedded"], rows["bert"]["set aside"]) == (25, 1, 1)
    assert rows["bert"]["reasons"].startswith("1 × ")
    assert events == [("memory.set_aside", "bert", {"count": 1})]
    assert not [one for one in shown.values() if "of anna" in f"{one.data} {one.description}"]


def test_a_reindex_tells_of_its_gate_and_its_swap(
    server: SyncPrefectClient, remember: Remember, events: list[tuple[str, str, dict[str, Any]]]
) -> None:
    from flows.embed import embed
    from flows.nightly import nightly
    from flows.reindex import reindex

    remember("anna", 12)
    embed()
    state = reindex(model="wordllama", dimensions=128, return_state=True)
    run = run_of(server, state)
    assert run.name == "reindex to wordllama: anna"
    assert {"chore:reindex", "tenant:anna"} <= set(run.tags)
    shown = artifacts_of(server, state)
    assert shown["reindex-progress-anna"].description.startswith("reindex anna: 12 of 12 (100 %)")
    (row,) = json.loads(shown["reindex-report"].data)
    assert (row["outcome"], row["gate"], row["records"]) == ("swapped", "passed", 12)
    assert [(name, tenant) for name, tenant, _ in events] == [("memory.reindex.swapped", "anna")]
    report = nightly(return_state=True)
    (told,) = report.result()
    assert (told.gate, told.reasons, run_of(server, report).name) == ("passed", "", "nightly: anna, 12 records")


def test_a_gate_that_fails_is_told(
    remember: Remember, events: list[tuple[str, str, dict[str, Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    from flows.embed import embed
    from flows.reindex import reindex

    remember("anna", 12)
    embed()
    monkeypatch.setenv("MEMORY_GATE_OVERLAP", "1")
    monkeypatch.setenv("MEMORY_GATE_FAST_ENOUGH", "0")
    monkeypatch.setenv("MEMORY_GATE_SLOWER", "0.000001")
    state = reindex(model="wordllama", dimensions=64, return_state=True)
    assert state.is_failed()
    assert ("memory.gate.failed", "anna") in [(name, tenant) for name, tenant, _ in events]
    assert "memory.reindex.swapped" not in [name for name, _, _ in events]


def test_a_budget_that_is_used_up_is_told(
    remember: Remember, events: list[tuple[str, str, dict[str, Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    from flows.embed import embed

    remember("anna", 25)
    monkeypatch.setenv("MEMORY_EMBED_TOKENS_A_RUN", "0")
    embed(return_state=True)
    assert ("memory.budget.reached", "anna") in [(name, tenant) for name, tenant, _ in events]


def test_a_second_reindex_of_a_tenant_ends_at_once_as_skipped(remember: Remember) -> None:
    import uuid

    from flows.embed import embed
    from flows.reindex import reindex

    remember("anna", 3)
    embed()
    with open_engine(load_settings()) as engine:
        space = engine.space_of("wordllama", 128)
        first = chore.begin(engine.reindex_work(), "anna", space, uuid.uuid4())
        assert first is not None
    state = reindex(model="wordllama", dimensions=128, return_state=True)
    assert (state.is_completed(), state.message) == (True, "1 tenants: skipped: under way elsewhere")


def test_progress_is_shown_now_and_then_and_at_the_end(server: SyncPrefectClient) -> None:
    now = [0.0]

    @flow(name="progress of a test")
    def shown() -> None:
        progress = Progress("A Key", "counting", lambda: now[0])
        for done in range(1001):
            now[0] += 0.01
            progress.show(done, 1000)

    state = shown(return_state=True)
    assert artifacts_of(server, state)["a-key"].description == "counting: 1,000 of 1,000 (100 %), 100 a second"


def test_progress_in_words() -> None:
    assert said_of("embed", 0, 10, 0) == "embed: 0 of 10 (0 %)"
    assert said_of("embed", 500, 2000, 10) == "embed: 500 of 2,000 (25 %), 10 a second, about 2 min left"
    assert said_of("embed", 1, 100_000, 2) == "embed: 1 of 100,000 (0 %), 2 a second, about 13.9 h left"


def test_reasons_are_counted_and_short() -> None:
    assert reasons_of(["too long", "refused", "too long"]) == "2 × too long; 1 × refused"
    assert len(reasons_of(["x" * 1000])) < 200


@pytest.mark.parametrize(("name", "key"), [("Anna B.", "gate-anna-b"), ("猫", "gate"), ("a--b", "gate-a-b")])
def test_keys_are_what_artifacts_may_be_called(name: str, key: str) -> None:
    assert key_of("gate", name) == key
