"""`memory up`: one command starts everything, what dies comes back, and `memory down` leaves nothing behind."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator

import psutil
import pytest

from tests.paths.installation import Installation, running_installation, until

# The first start of a Prefect server makes its database.
pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def everything() -> Iterator[Installation]:
    """Everything up, in a home of its own; ended in any case."""
    with running_installation() as installation:
        yield installation


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
