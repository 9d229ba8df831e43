"""`memory up`: one command starts everything, what dies comes back, and `memory down` leaves nothing behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.house.source import ROOT
from tests.servers import temporary_home

COMMAND = [sys.executable, "-m", "deployments.cli"]
SECONDS = 90

pytestmark = pytest.mark.timeout(300)  # the first start of a Prefect server makes its database


class Installation:
    """Everything in a home of its own, by its command line and by its server's API."""

    def __init__(self, home: Path) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT_", "MEMORY_"))}
        self.home = home
        self._environment = {**kept, "MEMORY_HOME": str(home), "MEMORY_TEND_EVERY": "0.5"}

    def memory(self, *arguments: str) -> Any:
        """What a command prints as JSON."""
        done = subprocess.run(
            [*COMMAND, *arguments, "--json"],
            cwd=ROOT,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout)

    def running(self) -> dict[str, int]:
        """Process ids by name, as they are written down."""
        noted = json.loads((self.home / "up" / "running.json").read_text())
        return {one["name"]: one["pid"] for one in [noted["watcher"], *noted["parts"]]}

    def processes(self) -> list[str]:
        """Command lines of all processes that were started for this home."""
        found = []
        for process in psutil.process_iter():
            try:
                if str(self.home) in process.environ().get("MEMORY_HOME", "") and process.pid != os.getpid():
                    found.append(" ".join(process.cmdline()))
            except psutil.Error:
                continue
        return found

    def api(self, path: str, body: object = None) -> Any:
        """An answer of the server."""
        address = json.loads((self.home / "up" / "running.json").read_text())["address"]
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"{address}/api/{path}",
            data,
            {"content-type": "application/json"},
            method="GET" if data is None else "POST",
        )
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.load(answer)

    def run(self, name: str, **parameters: Any) -> Any:
        """Ask for a run as the UI does; the run, once it has ended."""
        found = until(lambda: self.api("deployments/filter", {"deployments": {"name": {"any_": [name]}}}))
        asked = self.api(f"deployments/{found[0]['id']}/create_flow_run", {"parameters": parameters})
        ended = ("COMPLETED", "FAILED", "CRASHED", "CANCELLED")
        return until(lambda: (run := self.api(f"flow_runs/{asked['id']}"))["state_type"] in ended and run)


def until(ask: Callable[[], Any]) -> Any:
    """The first answer that says something."""
    for _ in range(SECONDS * 5):
        if answer := ask():
            return answer
        time.sleep(0.2)
    raise AssertionError("waited for nothing")


@pytest.fixture(scope="module")
def everything() -> Iterator[Installation]:
    """Everything up, in a home of its own; ended in any case."""
    with temporary_home() as home:
        installation = Installation(home)
        try:
            assert installation.memory("up", "--detach", "--port", "0")["ui"].startswith("http://127.0.0.1:")
            yield installation
        finally:
            installation.memory("down")


def test_one_command_starts_everything_and_a_run_asked_for_in_the_ui_works(everything: Installation) -> None:
    assert set(everything.running()) == {"up", "server", "runner", "tend"}
    everything.memory("add", "Ana prefers green tea", "--tenant", "anna")
    run = everything.run("nightly")
    assert (run["state_type"], run["name"].partition(":")[0]) == ("COMPLETED", "nightly")
    (tenant,) = everything.memory("status")["tenants"]
    assert (tenant["records"], tenant["waiting"]) == (1, 0)


def test_what_dies_is_started_again(everything: Installation) -> None:
    before = everything.running()["tend"]
    os.kill(before, signal.SIGKILL)
    until(lambda: everything.running()["tend"] != before)
    assert psutil.pid_exists(everything.running()["tend"])


def test_a_second_one_tells_where_the_first_one_is(everything: Installation) -> None:
    before = everything.running()
    address = everything.memory("up", "--port", "0")["ui"]
    assert address == json.loads((everything.home / "up" / "running.json").read_text())["address"]
    assert everything.running() == before


def test_after_it_was_killed_down_ends_all_of_it(everything: Installation) -> None:
    running = everything.running()
    os.kill(running["up"], signal.SIGKILL)
    os.kill(running["runner"], signal.SIGKILL)  # whatever it ran is left without anybody
    assert set(everything.memory("down")["stopped"]) >= {"server", "tend", "postgresql"}
    assert everything.processes() == []
    assert everything.memory("down")["stopped"] == []
