"""The task runner is a setting: threads, or Dask; what is embedded is the same, each text once."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from core.assembly import open_engine
from core.errors import Misconfigured
from core.settings import load_settings

Remember = Callable[[str, int], None]


def embed() -> Any:
    from flows.embed import embed as flow

    return flow(return_state=True)


@pytest.mark.timeout(300)
def test_dask_does_the_same_in_processes_of_its_own_and_a_failing_tenant_stops_no_other(
    remember: Remember, remember_elsewhere: Remember, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMORY_TASK_RUNNER", "dask")
    remember_elsewhere("alien", 3)
    for tenant in ("anna", "bert"):
        remember(tenant, 25)
    state = embed()
    problem = state.result(raise_on_failure=False)
    assert isinstance(problem, Misconfigured)  # the error tree crosses the border of processes whole
    assert {run.tenant: run.report.embedded for run in problem.details["runs"]} == {"alien": 0, "anna": 25, "bert": 25}
    with open_engine(load_settings()) as engine:
        assert {one.tenant: one.waiting for one in engine.backlog()} == {"alien": 3, "anna": 0, "bert": 0}
        assert sum(one.use.texts for one in engine.uses(1)) == 50


def test_the_address_of_a_cluster_is_taken_and_threads_are_the_default(home: Path) -> None:
    from prefect.task_runners import ThreadPoolTaskRunner
    from prefect_dask.task_runners import DaskTaskRunner

    from tasks.runner import ChosenRunner, runner_of

    assert type(ChosenRunner().duplicate()) is ThreadPoolTaskRunner
    found = runner_of(load_settings(task_runner="dask", dask_address="tcp://host:8786"))
    assert isinstance(found, DaskTaskRunner)
    assert found.address == "tcp://host:8786"


def test_dask_that_is_not_installed_is_a_setting_to_mend(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tasks.runner import runner_of

    real = builtins.__import__

    def without(name: str, *given: Any, **named: Any) -> Any:
        if name == "prefect_dask.task_runners":
            raise ImportError(name)
        return real(name, *given, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(Misconfigured, match="memory-engine"):
        runner_of(load_settings(task_runner="dask"))
