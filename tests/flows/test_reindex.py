"""The reindex flow: whole, resumed, stopped before the swap, bounded by money, and one tenant's failure its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from core.assembly import open_engine
from core.errors import EngineError, Refused
from core.model.generation import GenerationState as State
from core.model.memory import Draft
from core.settings import load_settings

Remember = Callable[[str, int], None]


def reindexed(**parameters: Any) -> tuple[Any, dict[str, Any]]:
    """Run the flow: its end state, and what it did for each tenant."""
    from flows.reindex import reindex

    state = reindex(**parameters, return_state=True)
    result = state.result(raise_on_failure=False)
    runs = result.details["runs"] if isinstance(result, EngineError) else result
    return state, {run.tenant: run for run in runs}


def endings(runs: dict[str, Any]) -> dict[str, str]:
    return {tenant: str(run.ending) for tenant, run in runs.items()}


def states(tenant: str) -> dict[int, State]:
    with open_engine(load_settings()) as engine:
        return {one.number: one.state for one in engine.generations([tenant])}


def test_tenants_move_to_another_width_and_a_second_run_finds_nothing_to_do(remember: Remember) -> None:
    remember("anna", 25)
    remember("bert", 3)
    state, runs = reindexed(model="wordllama", dimensions=64)
    assert (state.is_completed(), endings(runs)) == (True, {"anna": "swapped", "bert": "swapped"})
    assert (runs["anna"].fed, runs["anna"].estimate.records) == (25, 25)
    assert states("anna") == {1: State.RETIRING, 2: State.LIVE}
    with open_engine(load_settings()) as engine:
        assert engine.search("anna", "memory 7 of anna", 1).found[0].memory.id == "m7"
        assert engine.rollback("anna") == 1
    assert endings(reindexed(model="wordllama", dimensions=64, tenants=["bert"])[1]) == {"bert": "already there"}


def test_no_swap_stops_for_a_person_and_the_next_run_swaps_without_embedding_again(remember: Remember) -> None:
    remember("anna", 12)
    _, runs = reindexed(model="wordllama", dimensions=64, tenants=["anna"], swap=False)
    assert endings(runs) == {"anna": "verified, not swapped"}
    assert states("anna") == {1: State.LIVE, 2: State.VERIFIED}
    with open_engine(load_settings()) as engine:
        engine.write("anna", Draft(id="later", content="written while a person looks"))
    _, runs = reindexed(model="wordllama", dimensions=64, tenants=["anna"], grace_hours=0)
    assert endings(runs) == {"anna": "swapped"}
    with open_engine(load_settings()) as engine:
        assert dict(engine.sweep_generations()) == {}
    assert states("anna") == {2: State.LIVE}


def test_a_tenant_that_fails_does_not_stop_the_others(remember: Remember) -> None:
    remember("anna", 5)
    state, runs = reindexed(model="wordllama", dimensions=64, tenants=["nobody", "anna"])
    assert (state.is_failed(), endings(runs)) == (True, {"nobody": "failed", "anna": "swapped"})


def test_a_gate_that_is_not_passed_fails_the_run_and_says_why(
    remember: Remember, monkeypatch: pytest.MonkeyPatch
) -> None:
    remember("anna", 30)
    monkeypatch.setenv("MEMORY_GATE_OVERLAP", "1.0")
    state, runs = reindexed(model="wordllama", dimensions=64, tenants=["anna"])
    assert (state.is_failed(), endings(runs)) == (True, {"anna": "did not pass the gate"})
    assert "overlap" in state.message
    assert states("anna") == {1: State.LIVE, 2: State.BUILDING}
    with open_engine(load_settings()) as engine:
        (_, building) = engine.generations(["anna"])
        assert building.verdict is not None
        assert not building.verdict.passed
        assert not building.running  # left to the next run at once


def test_more_than_may_be_spent_is_not_begun(remember: Remember, monkeypatch: pytest.MonkeyPatch) -> None:
    remember("anna", 5)
    monkeypatch.setenv(
        "MEMORY_EMBEDDING_MODELS",
        '{"small": {"provider": "openai", "model": "text-embedding-3-small", "api_key": "x"}}',
    )
    state, runs = reindexed(model="small", tenants=["anna"], max_cost=0.0)
    assert state.is_failed()
    assert isinstance(runs["anna"].problem, Refused)
    assert states("anna") == {1: State.LIVE}


def test_a_rate_bounds_what_is_fed_at_a_time(remember: Remember) -> None:
    from tests.flows.conftest import task_names

    remember("anna", 30)
    state, runs = reindexed(model="wordllama", dimensions=64, tenants=["anna"], at_rate=10)
    assert endings(runs) == {"anna": "swapped"}
    assert task_names(state).count("feed reindex anna") >= 3  # ten at once, and no more than ten a second after that
