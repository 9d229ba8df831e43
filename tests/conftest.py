"""Fixtures for all tests. Servers start when the first test asks for one."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from tests.seaweed import S3Server, running_s3
from tests.servers import PostgresServer, homes_root, running_postgres, running_valkey, sweep, temporary_home
from tests.tcp_postgres import TcpPostgres, tcp_postgres


def pytest_configure(config: pytest.Config) -> None:
    """Folders of tests on the memory disk: an index syncs every write, and a disk takes that many milliseconds."""
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(homes_root()))


@pytest.fixture(scope="session")
def server_home() -> Iterator[Path]:
    """The home of this session's servers."""
    sweep()
    with temporary_home() as home:
        yield home


@pytest.fixture(scope="session")
def postgres_server(server_home: Path) -> Iterator[PostgresServer]:
    """A PostgreSQL for the session."""
    with running_postgres(server_home) as server:
        yield server


@pytest.fixture
def empty_database_url(postgres_server: PostgresServer) -> Iterator[str]:
    """A database of the test's own, with nothing in it."""
    url = postgres_server.create()
    yield url
    postgres_server.drop(url)


@pytest.fixture
def database_url(postgres_server: PostgresServer) -> Iterator[str]:
    """A migrated database of the test's own."""
    from core.record.migrate import migrate

    url = postgres_server.create(migrate)
    yield url
    postgres_server.drop(url)


@pytest.fixture(scope="session")
def valkey_server(server_home: Path) -> Iterator[str]:
    """URL of a Valkey for the session."""
    with running_valkey(server_home) as url:
        yield url


@pytest.fixture
def valkey_url(valkey_server: str) -> str:
    """URL of the session's Valkey, emptied for the test."""
    with redis.Redis.from_url(valkey_server) as client:
        client.flushall()
    return valkey_server


@pytest.fixture(scope="session")
def s3_server(server_home: Path) -> Iterator[S3Server]:
    """An S3 server for the session: its endpoint, keys and certificate."""
    home = server_home / "seaweed"
    home.mkdir()
    with running_s3(home) as server:
        yield server


@pytest.fixture
def s3_bucket(s3_server: S3Server) -> str:
    """Name of an empty bucket of the test's own."""
    name = f"test-{uuid.uuid4().hex[:16]}"
    s3_server.other_client().mkdir(name)
    return name


@pytest.fixture(scope="session")
def tcp_postgres_server() -> Iterator[TcpPostgres]:
    """A PostgreSQL on TCP with passwords, for the session."""
    with temporary_home() as home, tcp_postgres(home) as server:
        yield server
