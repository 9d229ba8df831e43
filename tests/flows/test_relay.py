"""The relay as a flow and a command."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import redis
from typer.testing import CliRunner

from deployments.cli import app

Remember = Callable[[str, int], None]


def test_events_are_told_by_the_command_and_the_lag_is_in_the_status(
    remember: Remember, home: Path, valkey_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    remember("anna", 4)
    run = CliRunner().invoke
    skipped = run(app, ["run", "relay", "--json"])
    assert (skipped.exit_code, json.loads(skipped.stdout)["portions"][0]["told"]) == (3, 0)
    monkeypatch.setenv("MEMORY_CACHE", "true")
    monkeypatch.setenv("MEMORY_REDIS_URL", valkey_url)
    assert [one["waiting"] for one in json.loads(run(app, ["status", "--json"]).stdout)["events"]] == [4]
    assert "events to tell" in run(app, ["status"]).output
    done = run(app, ["run", "relay", "--json"])
    assert (done.exit_code, json.loads(done.stdout)["portions"][0]["told"]) == (0, 4)
    with redis.Redis.from_url(valkey_url, decode_responses=True) as client:
        entries = client.xrange("memory:events:anna")
    assert [(one["kind"], one["id"]) for _, one in entries] == [("memory.created", f"m{n}") for n in range(4)]
    assert [one["waiting"] for one in json.loads(run(app, ["status", "--json"]).stdout)["events"]] == [0]
