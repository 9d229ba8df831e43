"""The commands of a reindex: what they say, their exit codes, and what they refuse."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from core.assembly import open_engine
from core.batch.embed import Portion, step
from core.model.memory import Draft
from core.settings import load_settings
from deployments.cli import app
from tests.house.source import ROOT
from tests.servers import temporary_home


@pytest.fixture(scope="module")
def module_home() -> Iterator[Path]:
    with temporary_home() as home:
        yield home


@pytest.fixture
def remembered(module_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twelve memories of a clinic that are in its index."""
    monkeypatch.setenv("MEMORY_HOME", str(module_home))
    monkeypatch.setenv("MEMORY_CACHE", "false")
    with open_engine(load_settings()) as engine:
        for number in range(12):
            engine.write("clinic", Draft(id=f"m{number}", content=f"memory {number} of the clinic"))
        step(engine.embed_work(), Portion(tenant="clinic", records=1000))


def run(*arguments: str) -> tuple[int, Any, str]:
    """Exit code, what was printed as JSON, and standard error."""
    ended = CliRunner().invoke(app, [*arguments, "--json"], prog_name="memory")
    return ended.exit_code, json.loads(ended.stdout) if ended.stdout else None, ended.stderr


def run_apart(*arguments: str) -> tuple[int, Any]:
    """A command that runs a flow, in a process of its own; exit code and what it printed as JSON."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    command = [sys.executable, "-m", "deployments.cli", *arguments, "--json"]
    ended = subprocess.run(command, cwd=ROOT, env=kept, capture_output=True, text=True, timeout=100, check=False)
    return ended.returncode, json.loads(ended.stdout)


@pytest.mark.usefixtures("remembered")
def test_a_tenant_is_moved_shown_rolled_back_and_its_other_index_dropped() -> None:
    moved = ["reindex", "--tenant", "clinic", "--model", "wordllama", "--dimensions", "64"]
    code, estimate, _ = run(*moved, "--dry-run")
    assert code == 0
    assert [(one["records"], one["reusable"], one["cost"]) for one in estimate["tenants"]] == [(12, 0, 0.0)]
    code, ended = run_apart(
        "reindex", "--tenant", "clinic", "--model", "wordllama", "--dimensions", "64", "--grace", "1h"
    )
    assert (code, [one["outcome"] for one in ended["tenants"]]) == (0, ["swapped"])
    code, shown, _ = run("generations", "--tenant", "clinic")
    assert [(one["number"], one["state"], one["dimensions"]) for one in shown] == [
        (1, "retiring", 256),
        (2, "live", 64),
    ]
    assert shown[1]["verdict"]["passed"]
    counts = [(one["records"], one["points"], one["waiting"], one["set_aside"]) for one in shown]
    assert counts == [(12, 12, 0, 0), (12, 12, 0, 0)]
    told = CliRunner().invoke(app, ["generations", "--tenant", "clinic"], prog_name="memory").stdout
    assert all(word in told for word in ("retiring", "live", "passed", "records", "points"))
    assert run("generations", "drop", "2", "--tenant", "clinic")[0] == 1
    assert run("rollback", "--tenant", "clinic")[1] == {"tenant": "clinic", "live": 1}
    assert run("generations", "drop", "2", "--tenant", "clinic")[0] == 0
    code, shown, _ = run("generations", "--dropped")
    assert [(one["number"], one["state"]) for one in shown] == [(1, "live"), (2, "dropped")]
    code, _, told = run("rollback", "--tenant", "clinic")
    assert code == 1
    assert "no earlier generation" in told


@pytest.mark.usefixtures("remembered")
@pytest.mark.parametrize(
    "wrong",
    [
        ["--model", "wordllama"],
        ["--model", "nobody knows it", "--tenant", "clinic", "--dry-run"],
        ["--model", "wordllama", "--tenant", "clinic", "--grace", "soon"],
        ["--model", "wordllama", "--tenant", "clinic", "--dimensions", "63", "--dry-run"],
    ],
)
def test_what_cannot_be_meant_is_refused_before_anything_is_begun(wrong: list[str]) -> None:
    code, _, told = run("reindex", *wrong)
    assert code in {1, 2}
    assert json.loads(told)["error"]["message"]
    with open_engine(load_settings()) as engine:
        assert all(one.state in {"live", "dropped"} for one in engine.generations(["clinic"], dropped=True))
