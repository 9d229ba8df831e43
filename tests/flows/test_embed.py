"""The embed flow: portions, failures by type, tenants that do not stop each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from core.assembly import open_engine
from core.errors import EngineError, Misconfigured, Permanent, Unavailable
from core.settings import load_settings

Remember = Callable[[str, int], None]


def embed(**parameters: Any) -> Any:
    """Run the flow; the state it ends in. Prefect is imported once its settings are in place."""
    from flows.embed import embed as flow

    return flow(**parameters, return_state=True)


def figures(result: object) -> dict[str, tuple[int, int]]:
    """Embedded and set aside, by tenant."""
    runs = result.details["runs"] if isinstance(result, EngineError) else result
    assert isinstance(runs, list)
    return {run.tenant: (run.report.embedded, run.report.set_aside_count) for run in runs}


def waiting() -> dict[str, int]:
    """What waits now, by tenant."""
    with open_engine(load_settings()) as engine:
        return {one.tenant: one.waiting for one in engine.backlog()}


def test_everything_is_embedded_in_portions(remember: Remember) -> None:
    from tests.flows.conftest import task_names

    remember("anna", 25)
    remember("bert", 12)
    state = embed()
    assert (state.is_completed(), state.message) == (True, "completed")
    assert figures(state.result()) == {"anna": (25, 0), "bert": (12, 0)}
    names = task_names(state)
    assert [name for name in names if name.startswith("embed anna")] == [
        "embed anna: 10",
        "embed anna: 10",
        "embed anna: 5",
    ]
    assert [name for name in names if name.startswith("embed bert")] == ["embed bert: 10", "embed bert: 2"]
    with open_engine(load_settings()) as engine:
        assert engine.search("anna", "memory 7 of anna", 1).found[0].memory.id == "m7"


def test_a_second_run_finds_nothing_to_do(remember: Remember) -> None:
    from tests.flows.conftest import task_names

    remember("anna", 3)
    assert embed().is_completed()
    again = embed()
    assert (again.message, again.result()) == ("completed", [])
    assert task_names(again) == ["plan embed", "ship deletions"]


def test_only_the_tenants_named(remember: Remember) -> None:
    remember("anna", 3)
    remember("bert", 3)
    assert figures(embed(tenants=["bert"]).result()) == {"bert": (3, 0)}
    assert waiting() == {"anna": 3, "bert": 0}


def test_small_tenants_are_one_task_and_one_that_fails_stops_no_other(
    remember: Remember, remember_elsewhere: Remember, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.flows.conftest import task_names

    monkeypatch.setenv("MEMORY_EMBED_PORTION", "48")
    for tenant, number in (("anna", 3), ("bert", 4), ("carl", 12)):
        remember(tenant, number)
    remember_elsewhere("alien", 2)
    state = embed()
    assert isinstance(state.result(raise_on_failure=False), Misconfigured)
    assert figures(state.result(raise_on_failure=False)) == {
        "alien": (0, 0),
        "anna": (3, 0),
        "bert": (4, 0),
        "carl": (12, 0),
    }
    assert [name for name in task_names(state) if name.startswith("embed ")] == ["embed 3 tenants: 9", "embed carl: 12"]
    assert waiting() == {"alien": 2, "anna": 0, "bert": 0, "carl": 0}


def test_what_of_a_pack_is_worth_another_try_is_tried_on_its_own(
    remember: Remember, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tasks import embed as tasks
    from tests.flows.conftest import task_names

    monkeypatch.setenv("MEMORY_EMBED_PORTION", "48")
    remember("anna", 3)
    remember("bert", 4)
    step, failed = tasks.step, []

    def away_once(work: Any, portion: Any) -> Any:
        if portion.tenant == "bert" and not failed:
            failed.append(portion)
            raise Unavailable("the record was away for a moment")
        return step(work, portion)

    monkeypatch.setattr(tasks, "step", away_once)
    state = embed()
    assert (state.is_completed(), waiting()) == (True, {"anna": 0, "bert": 0})
    assert [name for name in task_names(state) if name.startswith("embed ")] == ["embed 2 tenants: 7", "embed bert: 4"]


def test_a_misconfigured_tenant_does_not_stop_the_others(remember: Remember, remember_elsewhere: Remember) -> None:
    remember_elsewhere("alien", 25)
    remember("bert", 25)
    state = embed()
    assert state.is_failed()
    assert state.message.startswith("alien failed: the generation was built with")
    result = state.result(raise_on_failure=False)
    assert isinstance(result, Misconfigured)
    assert figures(result) == {"alien": (0, 0), "bert": (25, 0)}
    assert waiting() == {"alien": 25, "bert": 0}
    with open_engine(load_settings()) as engine:
        assert [one.set_aside for one in engine.backlog()] == [0, 0]


def test_what_was_set_aside_is_said(remember: Remember, set_aside_one: Callable[[str, str], None]) -> None:
    remember("anna", 5)
    set_aside_one("anna", "m2")
    state = embed()
    assert (state.is_completed(), state.message) == (True, "completed, 1 set aside")
    assert figures(state.result()) == {"anna": (4, 1)}


def test_what_another_worker_holds_is_left(remember: Remember) -> None:
    """Entries that cannot be done now are left, and the run ends instead of turning in circles."""
    remember("anna", 4)
    with open_engine(load_settings()) as engine:
        work = engine.embed_work()
        claim = work.outbox.claim(work.new_id(), 10, ["anna"])
    assert claim is not None
    state = embed()
    assert state.is_completed()
    assert state.message == "completed, 4 of anna left: held by another worker, or to be tried again later"


def test_rounds_are_bounded(remember: Remember) -> None:
    from prefect.exceptions import ParameterTypeError

    remember("anna", 3)
    state = embed(max_rounds=1)
    assert state.message == "completed, stopped after 1 rounds"
    assert waiting() == {"anna": 0}
    with pytest.raises(ParameterTypeError, match="max_rounds"):
        embed(max_rounds=0).result()


@pytest.mark.parametrize(
    ("problem", "calls", "kind"),
    [
        (Unavailable("away"), 3, Unavailable),
        (Misconfigured("wrong key"), 1, Misconfigured),
        (Permanent("never"), 1, Permanent),
        (KeyError("a memory's own words"), 1, Permanent),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else None,
)
def test_the_type_of_an_error_decides(
    prefect_api: None, problem: Exception, calls: int, kind: type[EngineError]
) -> None:
    from prefect import flow, task

    from tasks.boundary import task_boundary, worth_retrying

    made: list[int] = []

    @task(retries=2, retry_delay_seconds=0, retry_condition_fn=worth_retrying)
    def attempt() -> None:
        with task_boundary("attempt"):
            made.append(1)
            raise problem

    @flow
    def attempts() -> None:
        attempt()

    result = attempts(return_state=True).result(raise_on_failure=False)
    assert len(made) == calls
    assert type(result) is kind
    assert "own words" not in str(result)
