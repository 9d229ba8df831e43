"""Reconcile as a flow and as commands: drift is found and mended, a wiped index comes back from its snapshot."""

from __future__ import annotations

import json
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from core.assembly import open_engine
from core.model.memory import embedding_id
from core.settings import load_settings
from deployments.cli import app

Remember = Callable[[str, int], None]


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMORY_RECONCILE_MINIMUM_AGE", "0")


def run(*arguments: str) -> Result:
    """A command in this process."""
    return CliRunner().invoke(app, list(arguments), prog_name="memory")


def shown(result: Result) -> Any:
    return json.loads(result.stdout)


def lose(*ids: str, tenant: str = "anna") -> None:
    """Points vanish."""
    with open_engine(load_settings()) as engine:
        engine._index.delete(f"{tenant}.g1", {embedding_id(tenant, one): 2**52 for one in ids})


def stores(result: Result) -> dict[tuple[str, str], Any]:
    return {(one["tenant"], one["store"]): one for one in shown(result)["stores"]}


def test_lost_points_are_told_by_a_dry_run_and_mended_by_the_command(remember: Remember, home: Path) -> None:
    remember("anna", 12)
    remember("bert", 3)
    assert run("run", "embed", "--json").exit_code == 0
    clean = run("reconcile", "--json")
    assert clean.exit_code == 0
    assert {one["verdict"] for one in shown(clean)["stores"]} == {"clean"}
    lose("m1", "m2")
    told = run("reconcile", "--dry-run", "--json")
    assert told.exit_code == 3
    (found,) = stores(told)["anna", "index"]["findings"]
    assert (found["kind"], found["found"], found["repaired"], found["why"]) == ("missing", 2, 0, "dry run")
    mended = run("reconcile", "--full", "--json")
    assert mended.exit_code == 0
    (found,) = stores(mended)["anna", "index"]["findings"]
    assert (found["found"], found["repaired"], sorted(found["samples"])) == (2, 2, ["m1", "m2"])
    assert run("reconcile").exit_code == 0
    history = [one for one in shown(run("drift", "-t", "anna", "--limit", "50", "--json")) if one["store"] == "index"]
    assert [one["verdict"] for one in history] == ["clean", "drift", "clean"]
    assert "missing" in run("drift", "-t", "anna", "--limit", "50").output
    status = [one for one in shown(run("status", "-t", "anna", "--json"))["coverage"] if one["store"] == "index"]
    assert [(one["records"], one["points"], one["waiting"], one["verdict"]) for one in status] == [(12, 12, 0, "clean")]
    assert status[0]["clean_at"] > status[0]["found_at"]


def test_a_wiped_collection_is_handed_to_recover_and_nothing_is_embedded_again(remember: Remember, home: Path) -> None:
    remember("anna", 30)
    assert run("run", "embed", "--json").exit_code == 0
    assert run("snapshot", "--json").exit_code == 0
    paid = shown(run("costs", "--json"))
    shutil.rmtree(home / "vectors" / "anna.g1")
    told = run("reconcile", "--dry-run", "--json")
    assert (told.exit_code, stores(told)["anna", "index"]["recover"]) == (3, True)
    mended = run("reconcile", "--json")
    assert mended.exit_code == 0
    report = stores(mended)["anna", "index"]
    assert (report["note"], report["points"], report["findings"][0]["repaired"]) == ("it was recovered", 30, 30)
    assert shown(run("search", "memory 3 of anna", "-t", "anna", "--json"))
    assert [one["tokens"] for one in shown(run("costs", "--json"))] == [one["tokens"] for one in paid]


def test_what_only_a_person_can_settle_is_left_with_its_reason(remember: Remember, home: Path) -> None:
    remember("anna", 5)
    assert run("run", "embed", "--json").exit_code == 0
    with open_engine(load_settings()) as engine:
        engine._index.create("anna.g44", 8)
    done = run("reconcile", "--json")
    assert done.exit_code == 3
    (found,) = stores(done)["anna", "collections"]["findings"]
    assert (found["kind"], found["samples"]) == ("unregistered collection", ["anna.g44"])
    assert run("reconcile", "--watch", "--full").exit_code == 2


def test_watching_finds_by_numbers_and_mends_and_goes_on(
    remember: Remember, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remember("anna", 12)
    remember("bert", 3)
    assert run("run", "embed", "--json").exit_code == 0
    monkeypatch.setenv("MEMORY_RECONCILE_EVERY", "1")
    monkeypatch.setenv("MEMORY_TEND_EVERY", "0.2")
    lose("m1", "m2")
    left: list[int] = []

    def watch_the_watcher() -> None:
        with open_engine(load_settings()) as engine:
            for _ in range(100):
                left.append(engine._index.count("anna.g1"))
                if left[-1] == 12:
                    break
                time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGTERM)

    watcher = threading.Thread(target=watch_the_watcher)
    watcher.start()
    done = run("reconcile", "--watch", "-t", "anna")
    watcher.join()
    assert (done.exit_code, left[-1]) == (0, 12)
    assert "drift: anna: 2 differ" in done.output
    assert run("reconcile", "--json").exit_code == 0
