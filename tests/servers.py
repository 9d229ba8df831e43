"""Real servers for tests: one PostgreSQL and one Valkey a session (with xdist: a worker), and databases."""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import psycopg
from psycopg import sql

from core.adapters.embedded_postgres import start_postgres, stop_postgres
from core.adapters.embedded_valkey import start_valkey, stop_valkey
from core.errors import EngineError

PREFIX = "memory-test-"
MEMORY_DISK = Path("/dev/shm")
ENOUGH_BYTES = 2 << 30

# Nobody looks at this data after the machine went down. What a server does for that costs a third of a clone.
UNSAFE = ("fsync", "full_page_writes")

Migrate = Callable[[str], object]


def homes_root() -> Path:
    """The memory disk, where a database is cloned in 15 ms instead of 200, or the temporary folder."""
    usable = MEMORY_DISK.is_dir() and os.access(MEMORY_DISK, os.W_OK)
    if usable and shutil.disk_usage(MEMORY_DISK).free > ENOUGH_BYTES:
        return MEMORY_DISK
    return Path(tempfile.gettempdir())


@contextmanager
def temporary_home() -> Iterator[Path]:
    """A home for servers, stopped at the end. Not tmp_path: pytest closes the folders above that."""
    home = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=homes_root()))
    home.chmod(0o711)  # as root, PostgreSQL runs under an account of its own
    try:
        yield home
    finally:
        remove_home(home)


def remove_home(home: Path) -> None:
    """Stop what runs in a home and delete it."""
    stop_postgres(home)
    stop_valkey(home)
    shutil.rmtree(home)


def sweep() -> None:
    """Remove homes of test runs that were killed: their names carry the process they belonged to."""
    for home in homes_root().glob(f"{PREFIX}*"):
        pid = home.name.removeprefix(PREFIX).partition("-")[0]
        if not (pid.isdecimal() and psutil.pid_exists(int(pid))):
            with suppress(OSError, EngineError):  # another worker sweeps too
                remove_home(home)


class PostgresServer:
    """A running server that gives out databases. Its user is a superuser, free of row-level security."""

    def __init__(self, home: Path) -> None:
        self.url = start_postgres(home)
        self._admin = psycopg.connect(self.url, autocommit=True)
        for setting in UNSAFE:
            self._execute("ALTER SYSTEM SET {} = off", setting)
        self._admin.execute("SELECT pg_reload_conf()")
        self._numbers = itertools.count(1)
        self._templates: dict[Migrate, str] = {}

    def create(self, migrate: Migrate | None = None) -> str:
        """URL of a new database: empty, or a copy of one that `migrate` was run on once."""
        name = f"test_{next(self._numbers)}"
        template = "template0" if migrate is None else self._template(migrate)
        self._execute("CREATE DATABASE {} TEMPLATE {} STRATEGY FILE_COPY", name, template)
        return self._url(name)

    def drop(self, url: str) -> None:
        """Remove a database, whoever is still connected to it."""
        name = urlsplit(url).path.removeprefix("/")
        self._disconnect(name)
        self._execute("DROP DATABASE {} WITH (FORCE)", name)

    def close(self) -> None:
        """Close the connection that creates and drops."""
        self._admin.close()

    def _template(self, migrate: Migrate) -> str:
        if migrate not in self._templates:
            name = f"template_{len(self._templates)}"
            self._execute("CREATE DATABASE {} TEMPLATE template0", name)
            migrate(self._url(name))
            self._execute("ALTER DATABASE {} ALLOW_CONNECTIONS false", name)  # a copy needs it unused
            self._templates[migrate] = name
        return self._templates[migrate]

    def _disconnect(self, name: str) -> None:
        """End the connections to a database. FORCE does too, but sleeps 100 ms even for one just closing."""
        ending = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s"
        for _ in range(1000):
            if not self._admin.execute(ending, [name]).fetchall():
                return
            time.sleep(0.001)

    def _url(self, name: str) -> str:
        return urlsplit(self.url)._replace(path=f"/{name}").geturl()

    def _execute(self, statement: str, *names: str) -> None:
        self._admin.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))


@contextmanager
def running_postgres(home: Path) -> Iterator[PostgresServer]:
    """A server in this home until the end of the block."""
    server = PostgresServer(home)
    try:
        yield server
    finally:
        server.close()
        stop_postgres(home)


@contextmanager
def running_valkey(home: Path) -> Iterator[str]:
    """URL of a Valkey in this home until the end of the block."""
    url = start_valkey(home)
    try:
        yield url
    finally:
        stop_valkey(home)
