"""Everything `memory up` starts, in a home of its own: by its command line, and by its server's API."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any

import psutil

from tests.house.source import ROOT
from tests.servers import temporary_home

COMMAND = [sys.executable, "-m", "deployments.cli"]
SECONDS = 90
BUSY_TRIES = 10


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

    @property
    def address(self) -> str:
        """Where the UI is."""
        return str(json.loads((self.home / "up" / "running.json").read_text())["address"])

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
        """An answer of the server, asked again while it says that its database is busy, as its own client does."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"{self.address}/api/{path}",
            data,
            {"content-type": "application/json"},
            method="GET" if data is None else "POST",
        )
        for _ in range(BUSY_TRIES):
            try:
                with urllib.request.urlopen(request, timeout=10) as answer:
                    return json.load(answer)
            except urllib.error.HTTPError as problem:
                if problem.code != HTTPStatus.SERVICE_UNAVAILABLE:
                    raise
            time.sleep(1)
        raise AssertionError("the server stays busy")

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


@contextmanager
def running_installation() -> Iterator[Installation]:
    """Everything up until the end of the block."""
    with temporary_home() as home:
        installation = Installation(home)
        try:
            assert installation.memory("up", "--detach", "--port", "0")["ui"].startswith("http://127.0.0.1:")
            yield installation
        finally:
            installation.memory("down")
