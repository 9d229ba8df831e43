"""Where tasks of a flow run: threads of its own process, or a Dask cluster, as the settings say."""

from __future__ import annotations

from typing import Any

from prefect.futures import PrefectConcurrentFuture
from prefect.task_runners import TaskRunner, ThreadPoolTaskRunner

from core.errors import Misconfigured
from core.settings import Settings, load_settings

MOST_AT_ONCE = 64  # threads come into being only when a task needs one


class ChosenRunner(ThreadPoolTaskRunner[Any]):
    """Stands in a flow's place for a runner; each run gets the one the settings choose at that moment."""

    def duplicate(self) -> TaskRunner[PrefectConcurrentFuture[Any]]:  # type: ignore[override]
        """The runner of one run. Raises Misconfigured when Dask is chosen and not installed."""
        return runner_of(load_settings())


def runner_of(settings: Settings) -> TaskRunner[Any]:
    """Threads; or Dask: the cluster at `dask_address`, or processes on this machine, `embed_tasks` of them."""
    if settings.task_runner == "threads":
        return ThreadPoolTaskRunner(max_workers=MOST_AT_ONCE)
    try:
        from prefect_dask.task_runners import DaskTaskRunner
    except ImportError:
        raise Misconfigured("task_runner is dask, which is not installed: pip install 'memory-engine[dask]'") from None
    if settings.dask_address is not None:
        return DaskTaskRunner(address=settings.dask_address)
    local = {"n_workers": settings.embed_tasks, "threads_per_worker": 1, "dashboard_address": None}
    return DaskTaskRunner(cluster_kwargs=local)
