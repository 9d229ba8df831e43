"""The fixtures the other tests stand on: a database of its own for each test, from a template made once."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import psycopg
import pytest

from tests import servers
from tests.servers import PostgresServer, homes_root, sweep, temporary_home


def test_databases_are_copies_of_one_template(postgres_server: PostgresServer) -> None:
    runs: list[str] = []

    def migrate(url: str) -> None:
        runs.append(url)
        with psycopg.connect(url) as connection:
            connection.execute("CREATE TABLE thing (id int)")

    first, second = postgres_server.create(migrate), postgres_server.create(migrate)
    with psycopg.connect(first) as one, psycopg.connect(second) as two:
        one.execute("INSERT INTO thing VALUES (1)")
        one.commit()
        assert two.execute("SELECT count(*) FROM thing").fetchone() == (0,)
    assert len(runs) == 1
    postgres_server.drop(first)
    postgres_server.drop(second)
    with pytest.raises(psycopg.OperationalError, match="does not exist"):
        psycopg.connect(first)


def test_drop_does_not_wait_for_open_connections(postgres_server: PostgresServer) -> None:
    url = postgres_server.create()
    with psycopg.connect(url) as connection:
        postgres_server.drop(url)
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")


def test_text_sorts_by_code_point(empty_database_url: str) -> None:
    words = ["b", "a", "B", "é", "z", "Z", "_", "\U0001f600", "\uffee"]
    with psycopg.connect(empty_database_url) as connection:
        found = connection.execute("SELECT w FROM unnest(%s::text[]) w ORDER BY w", [words]).fetchall()
    assert [word for (word,) in found] == sorted(words)


def test_homes_of_killed_runs_are_swept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "PREFIX", "memory-sweep-test-")
    left = Path(tempfile.mkdtemp(prefix=f"{servers.PREFIX}999999999-", dir=homes_root()))
    with temporary_home() as ours:
        sweep()
        assert str(os.getpid()) in ours.name
        assert ours.exists()
        assert not left.exists()
