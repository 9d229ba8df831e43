"""Where engine and orchestrator meet: which failures are tried again, what becomes of unknown ones."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from prefect import Task, runtime
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State, TaskRun
from prefect.logging import get_run_logger

from core.errors import EngineError, Permanent, Transient
from core.model.logged import about
from tasks.engine import note_error


def worth_retrying(task: Task[..., Any], run: TaskRun, state: State[Any]) -> bool:  # noqa: ARG001  Prefect's signature
    """The type of the error decides: Transient is tried again, everything else is not."""
    return isinstance(state.result(raise_on_failure=False), Transient)


# What every task is: tried again by the type of its error, its result kept nowhere. Its time limit is its own.
RETRIED: dict[str, Any] = {
    "retries": 3,
    "retry_delay_seconds": [1.0, 5.0, 20.0],
    "retry_condition_fn": worth_retrying,
    "cache_policy": NO_CACHE,
    "persist_result": False,
}


@contextmanager
def task_boundary(what: str, tenant: str | None = None, generation: int | None = None) -> Iterator[None]:
    """Around the body of every task: whatever leaves it is an EngineError, logged with `what` and no content.

    All lines of the body are about the tenant and the generation.

    An unknown error becomes Permanent and is named by its type and place only: its own message might
    quote a memory, and Prefect keeps what it is given.
    """
    with about(tenant=tenant, generation=generation):
        yield from _guarded(what)


def _guarded(what: str) -> Iterator[None]:
    try:
        yield
    except EngineError as problem:
        get_run_logger().warning("%s: %s: %s", what, type(problem).__name__, problem.message)
        note_error(_task(), problem)
        raise type(problem)(problem.message, **problem.details) from None
    except Exception as problem:  # noqa: BLE001  the one place for it
        found = f"unforeseen {type(problem).__name__} at {place(problem)}"
        get_run_logger().error("%s: %s", what, found)
        told = Permanent(f"{what}: {found}")
        note_error(_task(), told)
        raise told from None


def _task() -> str:
    """Name of the task that runs, without whose data it is."""
    return str(runtime.task_run.task_name or "no task")


def place(problem: Exception) -> str:
    """File and line that raised, without folders: logs may leave the machine."""
    frames = traceback.extract_tb(problem.__traceback__)
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "an unknown place"
