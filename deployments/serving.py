"""From the table of deployments to a Prefect server: what it is told of each, and a runner that does what is due.

Imports Prefect, so commands import this only when they run.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Sequence
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from prefect import Flow
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.actions import WorkPoolCreate
from prefect.client.schemas.objects import ConcurrencyLimitConfig, ConcurrencyLimitStrategy
from prefect.deployments.runner import RunnerDeployment
from prefect.exceptions import ObjectAlreadyExists, ObjectNotFound
from prefect.runner import Runner
from prefect.schedules import Cron
from prefect.settings import PREFECT_API_URL
from prefect.types.entrypoint import EntrypointType
from pydantic.fields import FieldInfo

from core.errors import Misconfigured
from deployments.schedules import TABLE, Deployment

ONCE = ConcurrencyLimitConfig(limit=1, collision_strategy=ConcurrencyLimitStrategy.CANCEL_NEW)
POOL_TYPE = "process"


def ready() -> None:
    """Raises Misconfigured when no server is named: what is put on a server of this process alone ends with it."""
    if not PREFECT_API_URL.value():
        raise Misconfigured("PREFECT_API_URL names no Prefect server (`memory up` starts one here)")


def put_on_server(table: Sequence[Deployment] = TABLE, *, pool: str | None) -> None:
    """Make or bring up to date every deployment of the table, for the workers of a pool (None: for `memory serve`).

    What a person paused stays paused.
    """
    with get_client(sync_client=True) as client:
        if pool is not None:
            _make_pool(client, pool)
        found = [_registered(one, client) for one in table]
    for deployment in found:
        deployment.apply(work_pool_name=pool)


def runner_of(table: Sequence[Deployment], *, name: str, at_once: int, look_every: float) -> Runner:
    """A runner for every deployment of the table. It leaves schedules as they are when it ends."""
    runner = Runner(name=name, query_seconds=look_every, limit=at_once, pause_on_shutdown=False)
    with get_client(sync_client=True) as client:
        for one in table:
            runner.add_deployment(_registered(one, client))
    return runner


def flow_of(one: Deployment) -> Flow[..., Any]:
    """The flow of a row."""
    module, _, name = one.flow.partition(":")
    found = getattr(importlib.import_module(module), name)
    assert isinstance(found, Flow)  # noqa: S101  the table names flows only
    return found


def built(one: Deployment, *, paused: bool = False, active: bool = True) -> RunnerDeployment:
    """A row as Prefect takes it: the flow by its module, wherever the package is installed."""
    flow = flow_of(one)
    deployment = flow.to_deployment(
        one.name,
        schedule=None if one.cron is None else Cron(one.cron, timezone="UTC", active=active),
        paused=paused,
        concurrency_limit=ONCE if one.once else None,
        parameters=dict(one.parameters),
        description=one.description,
        tags=one.tags,
        entrypoint_type=EntrypointType.MODULE_PATH,
    )
    assert isinstance(deployment, RunnerDeployment)  # noqa: S101  outside of a running loop it is no coroutine
    form = deployment._parameter_openapi_schema.properties  # noqa: SLF001  Prefect offers no other way in
    for name, text in help_texts(flow).items():
        form[name]["description"] = text
    return deployment


def help_texts(flow: Flow[..., Any]) -> dict[str, str]:
    """What the flow says of its parameters.

    Prefect takes bounds from annotations, but descriptions from docstrings only: forms would stand without a word.
    """
    hints = get_type_hints(flow.fn, include_extras=True)
    found: dict[str, str] = {}
    for name in inspect.signature(flow.fn).parameters:
        if get_origin(hints.get(name)) is Annotated:
            told = [one.description for one in get_args(hints[name])[1:] if isinstance(one, FieldInfo)]
            found[name] = next(filter(None, told), "")
    return {name: text for name, text in found.items() if text}


def _registered(one: Deployment, client: SyncPrefectClient) -> RunnerDeployment:
    """The row, paused if a person has paused it on the server."""
    try:
        there = client.read_deployment_by_name(f"{flow_of(one).name}/{one.name}")
    except ObjectNotFound:
        return built(one)
    active = not there.schedules or any(schedule.active for schedule in there.schedules)
    return built(one, paused=there.paused, active=active)


def _make_pool(client: SyncPrefectClient, pool: str) -> None:
    try:
        client.create_work_pool(WorkPoolCreate(name=pool, type=POOL_TYPE))
    except ObjectAlreadyExists:
        return
