"""Automations end to end: what happens in real runs reaches whoever is to be notified, through a real Prefect server.

The session's server runs no triggers (Prefect leaves them out of servers it starts by itself), so one is started here.
"""

from __future__ import annotations

import json
import os
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest
from prefect.blocks.notifications import CustomWebhookNotificationBlock
from prefect.events.worker import EventsWorker
from prefect.logging.handlers import APILogWorker
from prefect.settings import PREFECT_API_URL, temporary_settings

from core.assembly import open_engine
from core.model.memory import embedding_id
from core.settings import load_settings
from deployments.automations import alarms, put_alarms
from tasks.events import Happened

SECONDS = 60


class Sink(ThreadingHTTPServer):
    """Where notifications go: keeps what is posted."""

    def __init__(self) -> None:
        received: list[str] = []

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                received.append(json.loads(self.rfile.read(int(self.headers["Content-Length"])))["text"])
                self.send_response(200)
                self.end_headers()

            def log_message(self, *told: object) -> None:
                """Say nothing."""

        super().__init__(("127.0.0.1", 0), Handler)
        self.received = received


@pytest.fixture
def sink() -> Iterator[Sink]:
    """A web server that is notified."""
    with Sink() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def whole_server(prefect_api: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A Prefect server as operators run it, triggers and all, for as long as the test."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    kept = {name: value for name, value in os.environ.items() if name != "PREFECT_API_URL"}
    there = tmp_path / "server"
    there.mkdir()
    # Making the tables takes seconds: the session's server has made them already.
    with (
        closing(sqlite3.connect(Path(kept["PREFECT_HOME"]) / "prefect.db")) as made,
        closing(sqlite3.connect(there / "prefect.db")) as copied,
    ):
        made.backup(copied)
    command = [sys.executable, "-m", "uvicorn", "--factory", "prefect.server.api.server:create_app"]
    process = subprocess.Popen(
        [*command, "--host", "127.0.0.1", "--port", str(port), "--log-level", "error"],
        env={**kept, "PREFECT_HOME": str(there), "PREFECT_UI_ENABLED": "0"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    url = f"http://127.0.0.1:{port}/api"
    try:
        awaited(lambda: process.poll() is not None or answers(f"{url}/health"))
        assert process.poll() is None
        monkeypatch.setenv("PREFECT_API_URL", url)
        with temporary_settings({PREFECT_API_URL: url}):
            yield
            APILogWorker.drain_all(timeout=10)
            EventsWorker.drain_all(timeout=10)
    finally:
        process.terminate()
        process.wait(timeout=30)


def answers(url: str) -> bool:
    try:
        return httpx.get(url, timeout=2).is_success
    except httpx.TransportError:
        return False


def awaited(done: Callable[[], object]) -> None:
    """Wait until it is done, a minute at the most."""
    deadline = time.monotonic() + SECONDS
    while not done() and time.monotonic() < deadline:
        time.sleep(0.2)


def test_whoever_is_to_be_notified_is_told_of_everything_that_happens_in_real_runs(
    whole_server: None,
    sink: Sink,
    remember: Callable[[str, int], None],
    set_aside_one: Callable[[str, str], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from flows.embed import embed
    from flows.reconcile import reconcile
    from flows.reindex import reindex

    webhook = CustomWebhookNotificationBlock(
        name="sink", url=f"http://127.0.0.1:{sink.server_address[1]}/", json_data={"text": "{{body}}"}
    )
    webhook.save("sink")
    put_alarms("custom-webhook/sink", alarms())

    remember("anna", 12)
    set_aside_one("anna", "m1")
    monkeypatch.setenv("MEMORY_EMBED_TOKENS_A_RUN", "0")
    embed(return_state=True)
    monkeypatch.delenv("MEMORY_EMBED_TOKENS_A_RUN")
    embed(return_state=True)
    with open_engine(load_settings()) as engine:
        engine._index.delete("anna.g1", {embedding_id("anna", "m2"): 2**52})
    monkeypatch.setenv("MEMORY_RECONCILE_MINIMUM_AGE", "0")
    reconcile(return_state=True)
    embed(return_state=True)
    monkeypatch.setenv("MEMORY_GATE_OVERLAP", "1.0")
    assert reindex(model="wordllama", dimensions=64, return_state=True).is_failed()
    monkeypatch.setenv("MEMORY_GATE_OVERLAP", "0")
    assert reindex(model="wordllama", dimensions=64, return_state=True).is_completed()

    expected = {str(one) for one in Happened}
    awaited(lambda: expected <= {text.partition(": ")[0] for text in sink.received})
    told = {text.partition(": ")[0]: text for text in sink.received}
    assert expected <= told.keys()
    assert all("anna" in told[one] for one in expected)
    assert not [text for text in sink.received if "of anna" in text]  # nothing of what memories say
