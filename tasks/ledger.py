"""The task that ships deletions to the ledger on the object store, and ends recoveries that are over."""

from __future__ import annotations

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.logging import get_run_logger

from core.errors import Transient
from tasks.boundary import task_boundary
from tasks.engine import shared_engine

SHIP_SECONDS = 600


@task(
    name="ship deletions",
    task_run_name="ship deletions",
    timeout_seconds=SHIP_SECONDS,
    cache_policy=NO_CACHE,
    persist_result=False,
)
def ship_deletions() -> str | None:
    """Ship what was deleted; why it could not be done, or None. The next run goes on: no flow fails for it."""
    with task_boundary("ship deletions"), shared_engine() as engine:
        try:
            shipped = engine.safekeeping.ledger().ship()
            engine.safekeeping.end_recoveries()
        except Transient as problem:
            get_run_logger().warning("deletions wait for the object store: %s", problem.message)
            return problem.message
        get_run_logger().info("%d deletions written to the ledger", shipped)
        return None
