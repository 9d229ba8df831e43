"""The resident loop: what is written is found, outages are waited for, one chore's fault ends no other."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import pytest
from prefect.settings import PREFECT_API_URL, temporary_settings

from core.assembly import Engine, open_engine
from core.errors import Misconfigured, Unavailable
from core.model.memory import Draft, embedding_id
from core.settings import load_settings
from tasks import events
from tasks.tending import LONGEST_PAUSE, Tended, chores_of, tend
from tests.house.source import ROOT

LOGGER = logging.getLogger("test.tend")


@pytest.fixture
def home(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Settings of an engine of the test's own, in the environment."""
    for name in [name for name in os.environ if name.startswith("MEMORY_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("MEMORY_HOME", str(tmp_path))
    monkeypatch.setenv("MEMORY_POSTGRES_URL", database_url)
    monkeypatch.setenv("MEMORY_CACHE", "false")
    return tmp_path


class Hours:
    """A clock and a stop in one: waiting takes no time but moves the clock."""

    def __init__(self) -> None:
        self.now = 0.0
        self.event = threading.Event()

    def __call__(self) -> float:
        return self.now

    def is_set(self) -> bool:
        return self.event.is_set()

    def wait(self, seconds: float) -> bool:
        self.now += seconds
        return self.event.is_set()


def looked(do: Callable[[Engine], str], hours: Hours) -> tuple[Tended, list[float]]:
    """A chore that is due every two seconds, and when it was looked at."""
    times: list[float] = []

    def look(engine: Engine) -> str:
        times.append(hours.now)
        return do(engine)

    return Tended("a chore", timedelta(seconds=2), look), times


def run(chores: list[Tended], hours: Hours, until: float) -> int:
    """The loop by a clock of its own."""
    return tend(chores, hours, hours, until, LOGGER)  # type: ignore[arg-type]


def test_what_is_written_is_found_by_its_meaning_and_what_is_deleted_is_shipped(home: Path) -> None:
    settings = load_settings()
    with open_engine(settings) as engine:
        engine.write("anna", Draft(id="tea", content="Ana prefers green tea"))
        engine.write("anna", Draft(id="gone", content="to be deleted"))
        engine.delete("anna", "gone")
    run(list(chores_of(settings)), Hours(), 150)
    with open_engine(settings) as engine:
        (backlog,) = engine.backlog()
        assert (backlog.waiting, engine.claimable()) == (0, [])
        assert engine.safekeeping.ledger().ship() == 0
        assert [hit.memory.id for hit in engine.search("anna", "what does Ana like to drink?").found] == ["tea"]


def test_what_happens_is_told_once_and_nobody_is_told_where_no_server_is_named(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[str, str]] = []
    monkeypatch.setattr(
        events, "emit_event", lambda event, resource, **_: told.append((event, resource["memory.tenant"]))
    )
    monkeypatch.setenv("MEMORY_EMBED_TOKENS_A_DAY", "0")
    monkeypatch.setenv("MEMORY_RECONCILE_MINIMUM_AGE", "0")
    with open_engine(load_settings()) as engine:
        engine.write("anna", Draft(id="tea", content="Ana prefers green tea"))
    run(list(chores_of(load_settings())), Hours(), 30)
    assert told == []
    with temporary_settings({PREFECT_API_URL: "http://127.0.0.1:1/api"}):
        run(list(chores_of(load_settings())), Hours(), 30)
        assert told == [("memory.budget.reached", "anna")]  # however often it looks
        monkeypatch.delenv("MEMORY_EMBED_TOKENS_A_DAY")
        run(list(chores_of(load_settings())), Hours(), 10)
        with open_engine(load_settings()) as engine:
            engine._index.delete("anna.g1", {embedding_id("anna", "tea"): 2**52})
        run(list(chores_of(load_settings())), Hours(), 30)
    assert told[1:] == [("memory.drift.found", "anna")]


def test_each_chore_is_looked_at_as_often_as_it_needs(home: Path) -> None:
    hours = Hours()
    chore, times = looked(lambda _: "", hours)
    assert run([chore], hours, 9) == 5
    assert times == [0, 2, 4, 6, 8]


def test_after_failures_pauses_grow_to_a_minute_and_the_first_success_makes_them_short(home: Path) -> None:
    hours = Hours()

    def away(_: Engine) -> str:
        if hours.now < 300:
            raise Unavailable("the store is away")
        return "back"

    chore, times = looked(away, hours)
    run([chore], hours, 400)
    pauses = [after - before for before, after in pairwise(times)]
    assert pauses[:6] == [4, 8, 16, 32, LONGEST_PAUSE, LONGEST_PAUSE]
    assert max(pauses) == LONGEST_PAUSE
    assert pauses[-1] == 2


@pytest.mark.parametrize("fault", [Misconfigured("a wrong key"), ValueError("the content of a memory")])
def test_a_chore_that_fails_hides_no_other_and_no_content_is_told(
    home: Path, fault: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    hours = Hours()

    def fail(_: Engine) -> str:
        raise fault

    broken, _ = looked(fail, hours)
    chore, times = looked(lambda _: "", hours)
    with caplog.at_level(logging.INFO, logger="test.tend"):
        run([broken, chore], hours, 10)
    assert times == [0, 2, 4, 6, 8]
    assert type(fault).__name__ in caplog.text
    assert "content of a memory" not in caplog.text


def test_a_store_that_cannot_be_opened_is_waited_for(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hours = Hours()
    right = os.environ["MEMORY_POSTGRES_URL"]
    monkeypatch.setenv("MEMORY_POSTGRES_URL", "postgresql://nobody@127.0.0.1:1/nothing?connect_timeout=1")
    monkeypatch.setenv("MEMORY_CONNECT_TIMEOUT", "1")
    chore, times = looked(lambda _: "", hours)
    other = Tended("mends", timedelta(seconds=3), lambda _: "")
    assert run([chore, other], hours, 5) == 3
    assert times == []
    monkeypatch.setenv("MEMORY_POSTGRES_URL", right)
    run([chore], hours, 12)
    assert times


def test_the_command_ends_well_on_sigterm_and_leaves_the_index_to_others(home: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "deployments.cli", "tend"],
        cwd=ROOT,
        env={**os.environ, "MEMORY_TEND_EVERY": "0.1"},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        assert "looking for work" in process.stderr.readline()
        settings = load_settings()
        with open_engine(settings) as engine:
            for number in range(3):
                engine.write("anna", Draft(content=f"memory {number}"))
        told = process.stderr.readline()
        assert "entries" in told
        with open_engine(settings) as engine:  # beside the loop
            assert engine.search("anna", "memory").found
        process.send_signal(signal.SIGTERM)
        left = process.stderr.read()
        assert process.wait(30) == 0
        assert "ended after" in left
        assert "memory 1" not in told + left
    finally:
        process.kill()
        process.wait(10)
