"""The demo on an operator's servers, by settings alone: PostgreSQL over TCP with a password, Valkey, S3."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
import redis
from psycopg import sql

from tests.house.source import ROOT
from tests.seaweed import S3Server
from tests.tcp_postgres import TcpPostgres
from tests.valkeys import tcp_valkey

COMMAND = [sys.executable, "-m", "deployments.cli"]


@pytest.fixture
def chosen(
    tcp_postgres_server: TcpPostgres, s3_server: S3Server, s3_bucket: str, tmp_path: Path
) -> Iterator[dict[str, str]]:
    """The environment of a command on these servers."""
    name = f"demo_{uuid.uuid4().hex[:8]}"
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT_", "MEMORY_"))}
    with (
        psycopg.connect(tcp_postgres_server.url(), autocommit=True) as session,
        tcp_valkey(tmp_path / "valkey-server", "--requirepass", "of-the-cache", "--maxmemory", "64mb") as port,
    ):
        session.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        yield {
            **kept,
            "MEMORY_HOME": str(tmp_path / "home"),
            "MEMORY_POSTGRES_URL": tcp_postgres_server.url(database=name),
            "MEMORY_REDIS_URL": f"redis://:of-the-cache@127.0.0.1:{port}/0",
            "MEMORY_OBJECTS_URL": f"s3://{s3_bucket}/kept/here",
            "MEMORY_S3_ENDPOINT": s3_server.endpoint,
            "MEMORY_S3_KEY_ID": s3_server.key_id,
            "MEMORY_S3_SECRET": s3_server.secret,
        }
        session.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def test_the_demo_runs_on_servers_named_by_settings_alone(chosen: dict[str, str], tmp_path: Path) -> None:
    def memory(*arguments: str) -> str:
        done = subprocess.run(
            [*COMMAND, *arguments], cwd=ROOT, env=chosen, capture_output=True, text=True, timeout=110, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    shown = memory("demo")
    for tenant in ("harbor-clinic", "lumen-studio", "wanderlight"):
        assert tenant in shown
    status = json.loads(memory("status", "--json"))
    assert {one["waiting"] for one in status["tenants"]} == {0}
    assert sum(one["records"] for one in status["tenants"]) > 519
    assert set(status["stores"].values()) >= {
        "yours (MEMORY_POSTGRES_URL)",
        "yours (MEMORY_REDIS_URL)",
        "yours (MEMORY_OBJECTS_URL)",
    }
    checked = json.loads(memory("doctor", "--json"))
    assert {one["verdict"] for one in checked} <= {"ok", "warning"}, checked
    with redis.Redis.from_url(chosen["MEMORY_REDIS_URL"]) as client:
        assert client.dbsize() > 0
    assert sorted(path.name for path in (tmp_path / "home").iterdir()) == ["prefect", "quality", "vectors"]
