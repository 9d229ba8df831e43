"""Flows run for real: Prefect's own local server, PostgreSQL, the embedded index, the bundled model."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from core.assembly import open_engine
from core.model.memory import Draft
from core.settings import load_settings
from deployments.prefect_settings import settle_prefect, start_prefect

Remember = Callable[[str, int], None]


def end_prefect() -> None:
    """End the local server, once nothing is left to send to it: a client with logs in hand waits a minute."""
    from prefect.events.worker import EventsWorker
    from prefect.logging.handlers import APILogWorker
    from prefect.server.api.server import SubprocessASGIServer

    APILogWorker.drain_all(timeout=10)
    EventsWorker.drain_all(timeout=10)
    SubprocessASGIServer().stop()


@pytest.fixture(scope="session")
def prefect_api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """One local server for the session, started as the command line does it: nothing was set up before."""
    before = dict(os.environ)
    for name in [name for name in os.environ if name.startswith("PREFECT_")]:
        del os.environ[name]
    settle_prefect(tmp_path_factory.mktemp("flows"))
    start_prefect()
    yield
    end_prefect()
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture
def prefect_url(prefect_api: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Address of the session's server, named as operators name theirs: processes started now use it too."""
    from prefect.server.api.server import SubprocessASGIServer
    from prefect.settings import PREFECT_API_URL, temporary_settings

    url = SubprocessASGIServer().api_url
    monkeypatch.setenv("PREFECT_API_URL", url)
    with temporary_settings({PREFECT_API_URL: url}):
        yield url


@pytest.fixture
def server(prefect_url: str) -> Iterator[Any]:
    """A client of the session's server."""
    from prefect.client.orchestration import get_client

    with get_client(sync_client=True) as client:
        yield client


@pytest.fixture
def home(prefect_api: None, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Settings of an engine of the test's own, in the environment: small portions, no cache."""
    monkeypatch.setenv("MEMORY_HOME", str(tmp_path))
    monkeypatch.setenv("MEMORY_POSTGRES_URL", database_url)
    monkeypatch.setenv("MEMORY_CACHE", "false")
    monkeypatch.setenv("MEMORY_EMBED_PORTION", "10")
    monkeypatch.setenv("MEMORY_EMBED_BATCH", "5")
    return tmp_path


def write_some(tenant: str, number: int, **settings: int) -> None:
    """So many memories for a tenant, in the settings of the environment but for those given."""
    with open_engine(load_settings(**settings)) as engine:
        drafts = (Draft(id=f"m{count}", content=f"memory {count} of {tenant}") for count in range(number))
        assert len(list(engine.write_many(tenant, drafts))) == number


@pytest.fixture
def remember(home: Path) -> Remember:
    """Writes so many memories for a tenant."""

    return write_some


@pytest.fixture
def remember_elsewhere(home: Path, database_url: str) -> Remember:
    """Writes for a tenant whose index is in an embedding space whose model nobody can ask any more."""

    def write(tenant: str, number: int) -> None:
        write_some(tenant, number)
        with psycopg.connect(database_url) as connection:
            gone = (
                """UPDATE generation SET space = space || '{"model": "gone"}', fingerprint = 'gone' WHERE tenant = %s"""
            )
            connection.execute(gone, [tenant])

    return write


@pytest.fixture
def set_aside_one(database_url: str) -> Callable[[str, str], None]:
    """Makes an entry look as if every worker that took it had died: the next one sets it aside."""

    def kill(tenant: str, memory_id: str) -> None:
        with psycopg.connect(database_url) as connection:
            changed = connection.execute(
                "UPDATE outbox SET attempts = 9 WHERE tenant = %s AND memory_id = %s", [tenant, memory_id]
            )
            assert changed.rowcount == 1

    return kill


def task_names(state: Any) -> list[str]:
    """Names of the task runs of the flow run that ended in this state."""
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId

    chosen = FlowRunFilter(id=FlowRunFilterId(any_=[state.state_details.flow_run_id]))
    with get_client(sync_client=True) as client:
        return sorted(run.name for run in client.read_task_runs(flow_run_filter=chosen))
