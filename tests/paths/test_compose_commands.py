"""The commands of the Compose file that prepare its stores, run against the same servers from wheels."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import psycopg
import pytest
import yaml

from core.adapters.embedded_postgres import _programs
from core.record.migrate import migrate
from tests.house.source import ROOT
from tests.seaweed import S3Server
from tests.servers import PostgresServer

COMPOSED: dict[str, Any] = yaml.safe_load((ROOT / "deployments" / "compose.yaml").read_text(encoding="utf-8"))
PASSWORD = "0123-of_the-owner"


def run(script: str, **chosen: str) -> subprocess.CompletedProcess[str]:
    """A script in `sh`, with the programs of the wheels at hand; `$$` is Compose's way to write `$`."""
    path = os.pathsep.join([str(_programs() / "bin"), str(Path(sys.executable).parent), os.defpath])
    return subprocess.run(
        ["sh", "-c", script.replace("$$", "$")],
        env={"PATH": path, "HOME": chosen.pop("HOME", "/nonexistent"), **chosen},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_bucket_is_made_once_and_then_left_alone(s3_server: S3Server, tmp_path: Path) -> None:
    (script,) = COMPOSED["services"]["bucket"]["command"]
    script = script.replace("objects:9333", s3_server.master).replace("objects:8888", s3_server.filer)
    for _ in range(2):  # the second time as when the stack is started again
        done = run(script, HOME=str(tmp_path))
        assert done.returncode == 0, done.stdout + done.stderr
    assert s3_server.other_client().exists("memory")


def test_a_store_that_cannot_be_reached_is_no_success(tmp_path: Path) -> None:
    (script,) = COMPOSED["services"]["bucket"]["command"]
    script = script.replace("objects:9333", "127.0.0.1:1").replace("objects:8888", "127.0.0.1:1")
    try:
        assert run(f"timeout 6 sh -c {script!r}", HOME=str(tmp_path)).returncode != 0
    except subprocess.TimeoutExpired:
        pytest.fail("it hangs")


def test_the_owner_is_no_superuser_and_can_migrate(postgres_server: PostgresServer) -> None:
    """Under another name: the tests' server has a database `memory` already."""
    script = COMPOSED["configs"]["owner"]["content"].replace("memory", "composed")
    (folder,) = parse_qs(urlsplit(postgres_server.url).query)["host"]
    with psycopg.connect(postgres_server.url, autocommit=True) as admin:
        done = run(script, PGHOST=folder, POSTGRES_PASSWORD=PASSWORD, PGDATABASE="postgres")
        assert done.returncode == 0, done.stderr
        try:
            _share_roles(admin)
            url = f"postgresql://composed:{PASSWORD}@/composed?host={folder}"
            assert migrate(url)
            with psycopg.connect(url) as session:
                row = session.execute(
                    "SELECT rolsuper, rolbypassrls FROM pg_roles WHERE rolname = current_user"
                ).fetchone()
            assert row == (False, False)
        finally:
            admin.execute("DROP DATABASE composed WITH (FORCE)")
            admin.execute("DROP ROLE composed")


def _share_roles(admin: psycopg.Connection[Any]) -> None:
    """As the README says of a second owner: the two roles are the server's, and another database made them."""
    for role in ("memory_app", "memory_worker"):
        if admin.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [role]).fetchone():
            admin.execute(f"GRANT {role} TO composed WITH ADMIN OPTION".encode())
