"""The commands `memory up` and `memory down`: everything on this machine, and the end of it."""

from __future__ import annotations

import http.client
import os
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from core.adapters.server_orphans import end_orphans
from core.adapters.server_parts import (
    Part,
    Standing,
    end_parts,
    note_standing,
    standing_in,
    start_part,
    this_process,
)
from core.adapters.server_process import only_one, open_home
from core.assembly import open_engine
from core.assembly.stores import stop_embedded
from core.errors import Refused, Unavailable
from core.settings import Settings, load_settings
from deployments import options
from deployments.output import hint, say, show_json
from deployments.prefect_settings import running_file, settle_prefect

HOST = "127.0.0.1"
PORT = 4200
READY_SECONDS = 120.0
END_SECONDS = 30.0
LOOK_SECONDS = 1.0
# A part that ends so often is not started again: something is wrong with it that a person has to see.
RESTARTS = 5
ORPHAN_ROUNDS = 5

MEMORY = (sys.executable, "-m", "deployments.cli")
PREFECT = (sys.executable, "-m", "prefect")

Port = Annotated[int, typer.Option("--port", min=0, max=65535, help="Of the server and its UI; 0: any that is free.")]
Detach = Annotated[bool, typer.Option("--detach", "-d", help="Return once it runs; `memory down` ends it.")]


def up(port: Port = PORT, detach: Detach = False, as_json: options.AsJson = False) -> None:
    """Start everything on this machine, and stay: stores, Prefect server with its UI, all deployments, the loop.

    Prints the address of the UI. What dies is started again. Ends on SIGTERM or Ctrl-C, after the batches under way;
    `memory down` does the same from elsewhere, and ends the stores too. The logs are in the folder `up` in home.

    \b
    Examples:
      memory up
      memory up --detach --port 4300
    """
    settings = load_settings()
    home = open_home(settings.home)
    standing = standing_in(running_file(home))
    if standing is not None and standing.watcher.runs:
        _tell(standing.address, "runs already", as_json=as_json)
        return
    if detach:
        _tell(_detached(home, port), "runs", as_json=as_json)
        return
    with only_one(home, "up", seconds=1):
        _run(settings, home, _free(port), as_json=as_json)


def down(as_json: options.AsJson = False) -> None:
    """End what `memory up` started and the embedded servers of this home. The data stays.

    What a killed run or a killed `memory up` left behind is ended too. The next command starts the stores again.

    \b
    Example:
      memory down
    """
    settings = load_settings()
    home = settings.home.resolve()
    stopped: list[str] = []
    standing = standing_in(running_file(home))
    if standing is not None:
        stopped += end_parts([standing.watcher], END_SECONDS * 4)
        stopped += end_parts(standing.parts[::-1], END_SECONDS)
        running_file(home).unlink(missing_ok=True)
    stopped += stop_embedded(settings)
    if _end_left_behind(home):
        stopped.append("prefect")
    if as_json:
        show_json({"stopped": stopped})
    else:
        say(f"stopped: {', '.join(stopped)}" if stopped else "nothing was running")


def parts_of(port: int) -> dict[str, tuple[str, ...]]:
    """What stays, in the order of its start; the server is the last to end. A further part is one line more."""
    return {
        "server": (*PREFECT, "server", "start", "--host", HOST, "--port", str(port)),
        "runner": (*MEMORY, "serve", "--no-tend", "--automations"),
        "tend": (*MEMORY, "tend"),
    }


def _run(settings: Settings, home: Path, port: int, *, as_json: bool) -> None:
    """Everything, from its start to its end."""
    before = standing_in(running_file(home))
    if before is not None:
        end_parts(before.parts[::-1], END_SECONDS)  # the one who watched them was killed
    _end_left_behind(home)
    with open_engine(settings) as engine:
        engine.claimable(1)
    address = f"http://{HOST}:{port}"
    _settle(home, address)
    commands = parts_of(port)
    parts: dict[str, Part] = {}

    def start(name: str) -> None:
        parts[name] = start_part(name, commands[name], home / "up" / f"{name}.log")
        note_standing(running_file(home), Standing(address, this_process("up"), tuple(parts.values())))

    try:
        start("server")
        _wait_for(lambda: _answers(port), lambda: parts["server"].runs, home)
        for name in list(commands)[1:]:
            start(name)
        _tell(address, "runs", as_json=as_json)
        _watch(parts, start)
    except KeyboardInterrupt:
        hint("Ending, as soon as what is under way is done …")
    finally:
        end_parts(list(parts.values())[::-1], END_SECONDS)
        running_file(home).unlink(missing_ok=True)


def _watch(parts: dict[str, Part], start: Callable[[str], None]) -> None:
    """Start again what has ended, until the command is told to end. Raises Unavailable for what ends too often."""
    again = dict.fromkeys(parts, 0)
    while max(again.values()) <= RESTARTS:
        time.sleep(LOOK_SECONDS)
        for name in [name for name, part in parts.items() if not part.runs]:
            again[name] += 1
            hint(f"{name} has ended and is started again ({again[name]} of {RESTARTS})")
            start(name)
    worst = max(again, key=lambda name: again[name])
    raise Unavailable(f"{worst} ended {again[worst]} times: see {worst}.log in the folder up of home")


def _settle(home: Path, address: str) -> None:
    """The environment the parts inherit. PREFECT_HOME is also how `memory down` knows what belongs to this home."""
    os.environ["PREFECT_HOME"] = str(home / "prefect")
    os.environ["PREFECT_API_URL"] = f"{address}/api"
    os.environ["MEMORY_HOME"] = str(home)
    settle_prefect(home)


def _detached(home: Path, port: int) -> str:
    """`memory up` in the background; its address once it runs."""
    command = [*MEMORY, "up", "--port", str(port)]
    watcher = start_part("up", command, home / "up" / "up.log")

    def found() -> Standing | None:
        standing = standing_in(running_file(home))
        return standing if standing is not None and standing.watcher == watcher and len(standing.parts) > 1 else None

    _wait_for(lambda: found() is not None, lambda: watcher.runs, home)
    standing = found()
    assert standing is not None  # noqa: S101  just seen
    return standing.address


def _wait_for(done: Callable[[], bool], lives: Callable[[], bool], home: Path) -> None:
    """Until it is done. Raises Unavailable when the process that should do it has ended, or takes too long."""
    deadline = time.monotonic() + READY_SECONDS
    while not done():
        if not lives() or time.monotonic() > deadline:
            raise Unavailable(f"it does not start: see the logs in {home / 'up'}")
        time.sleep(LOOK_SECONDS / 5)


def _answers(port: int) -> bool:
    """Whether a Prefect server answers there."""
    connection = http.client.HTTPConnection(HOST, port, timeout=2)
    try:
        connection.request("GET", "/api/health")
        return connection.getresponse().status == http.HTTPStatus.OK
    except OSError:
        return False
    finally:
        connection.close()


def _free(port: int) -> int:
    """The port, if nobody listens on it; any free one for 0."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            raise Refused(f"port {port} is taken: choose another, or 0 for any", where="--port") from None
        return int(probe.getsockname()[1])


def _end_left_behind(home: Path) -> int:
    """End processes of Prefect whose starter is gone, and then those they leave."""
    ended = 0
    for _ in range(ORPHAN_ROUNDS):
        found = end_orphans("prefect", "PREFECT_HOME", str(home / "prefect"))
        if not found:
            break
        ended += found
    return ended


def _tell(address: str, how: str, *, as_json: bool) -> None:
    if as_json:
        show_json({"ui": address, "api": f"{address}/api"})
    else:
        say(f"{how}: {address}")
    sys.stdout.flush()
