"""A whole nightly run, with failures in it: what it writes and what Prefect keeps holds no content and no secret."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from core.assembly import open_engine
from core.model.memory import Draft
from core.settings import load_settings
from tests.house.source import ROOT
from tests.openai_server import OpenAIServer, refusing

CONTENT = "xylograph-4711"
SECRETS = {
    "MEMORY_EMBEDDING_API_KEY": "sk-quokka-2718",
    "MEMORY_MASTER_KEY": base64.b64encode(b"wombat-31415-926535-897932-38462").decode(),
}


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    started = OpenAIServer()
    started.told = refusing("refuse")
    yield started
    started.stop()


@pytest.fixture
def environment(server: OpenAIServer, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = {
        **SECRETS,
        "MEMORY_HOME": str(tmp_path),
        "MEMORY_POSTGRES_URL": database_url,
        "MEMORY_CACHE": "false",
        "MEMORY_EMBEDDING_PROVIDER": "openai",
        "MEMORY_EMBEDDING_MODEL": "text-embedding-3-small",
        "MEMORY_EMBEDDING_DIMENSIONS": "64",
        "MEMORY_EMBEDDING_URL": server.url,
        "MEMORY_KEY_PROVIDER": "environment",
        "MEMORY_POLICIES": '[{"type": "turn", "archive_after": "PT1S"}]',
        "MEMORY_LOG_FORMAT": "json",
        "MEMORY_LOG_LEVEL": "DEBUG",
    }
    for name, value in chosen.items():
        monkeypatch.setenv(name, value)
    for name in [name for name in os.environ if name.startswith("PREFECT_")]:
        monkeypatch.delenv(name)


def remember(database_url: str) -> None:
    """Memories that are embedded, refused, sealed, archived, reaped; and a tenant whose model is gone."""
    with open_engine(load_settings()) as engine:
        plain = [Draft(id=f"m{n}", content=f"{CONTENT} {n}", title=CONTENT, tags=(CONTENT,)) for n in range(5)]
        refused = Draft(id="refused", content=f"refuse {CONTENT}", metadata={"note": CONTENT})
        sealed = Draft(id="sealed", content=f"sealed {CONTENT}", sensitive=True)
        resting = Draft(id="resting", content=f"resting {CONTENT} " * 20, type="turn")
        gone = Draft(id="gone", content=f"gone {CONTENT}")
        assert all(one.id for one in engine.write_many("anna", [*plain, refused, sealed, resting, gone]))
        engine.delete("anna", "gone")
        engine.write("alien", Draft(content=CONTENT))
    with psycopg.connect(database_url) as admin:
        admin.execute("UPDATE memory SET updated_at = now() - interval '1 day' WHERE id = 'resting'")
        space = """UPDATE generation SET space = space || '{"model": "gone"}', fingerprint = 'gone'"""
        admin.execute(f"{space} WHERE tenant = 'alien'".encode())


@pytest.mark.usefixtures("environment")
@pytest.mark.timeout(240)
def test_content_and_secrets_are_in_no_line_of_a_nightly_run_and_in_nothing_prefect_keeps(
    database_url: str, tmp_path: Path
) -> None:
    remember(database_url)
    command = [sys.executable, "-m", "deployments.cli", "run", "nightly", "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 1, done.stderr  # the tenant whose model is gone
    written = [json.loads(line) for line in done.stderr.splitlines()]
    shown: list[dict[str, Any]] = [line for line in written if "event" in line]
    assert any({"tenant", "generation", "batch"} <= line.keys() for line in shown)
    assert {line["tenant"] for line in shown if "tenant" in line} == {"anna", "alien"}
    told = " ".join(str(line["event"]) for line in shown)
    assert "set aside" in told
    assert "1 archived" in told
    kept = b"".join(path.read_bytes() for path in (tmp_path / "prefect").rglob("*") if path.is_file())
    assert b"nightly-report" in kept
    everything = (done.stdout + done.stderr).encode() + kept
    hidden = [CONTENT, *SECRETS.values()]
    assert [one for one in hidden if one.encode() in everything] == []
