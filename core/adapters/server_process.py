"""What the embedded servers have in common: one server a home, which outlives the command that started it."""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from core.adapters.file_lock import lock_within
from core.errors import Busy, Misconfigured

LOCK_SECONDS = 90.0
POLL_SECONDS = 0.02
TAIL_LINES = 12

# The path of a Unix socket ends at 107 bytes on Linux and 103 on macOS. Of the characters only those
# that mean the same in a shell, in a URL and in postgresql.conf.
SOCKET_PATH_BYTES = 100
PLAIN_PATH = re.compile(r"[A-Za-z0-9_./@+-]+")
# Not the folder TMPDIR names: every command has to come to the same answer, whatever its environment.
SHORT_ROOT = Path("/tmp")  # noqa: S108  the folder below it is checked by `private_folder`


def open_home(home: Path) -> Path:
    """The home folder by its one true name, made if missing."""
    try:
        home = home.resolve()
        home.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Misconfigured(f"cannot make the folder {home}: {error.strerror}") from error
    return home


@contextmanager
def only_one(home: Path, name: str, seconds: float = LOCK_SECONDS) -> Iterator[None]:
    """Hold the lock for starting and stopping the server `name` of this home; Busy when it stays held."""
    path = home / f".{name}.lock"
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise Misconfigured(f"cannot open {path}: {error.strerror}") from error
    try:
        if not lock_within(descriptor, seconds, POLL_SECONDS):
            holder = path.read_text().strip() or "unknown"
            raise Busy(f"{name} in {home} is being started or stopped by process {holder}", holder=holder)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(descriptor)


def wait_until(done: Callable[[], bool], seconds: float) -> bool:
    """Ask again and again until `done` says yes (True) or the time is up (False)."""
    deadline = time.monotonic() + seconds
    while not done():
        if time.monotonic() >= deadline:
            return False
        time.sleep(POLL_SECONDS)
    return True


def socket_folder(folder: Path, socket_name: str) -> Path:
    """Where the socket goes: into the server's own folder, or a short one if that name is too long or odd."""
    path = str(folder / socket_name)
    if len(os.fsencode(path)) <= SOCKET_PATH_BYTES and PLAIN_PATH.fullmatch(path):
        return folder
    digest = hashlib.blake2b(os.fsencode(folder), digest_size=8).hexdigest()
    return SHORT_ROOT / f"memory-{digest}"


def forget_socket_folder(folder: Path, socket_name: str) -> None:
    """Remove the short folder of a server that has stopped, if it had one."""
    place = socket_folder(folder, socket_name)
    if place != folder:
        with suppress(OSError):  # gone already, or not empty and so in use again
            place.rmdir()


def private_folder(folder: Path, owner: tuple[int, int] | None = None) -> None:
    """Make a folder nobody but its owner (uid, gid) can enter; refuse one that somebody else made."""
    uid, gid = owner or (os.geteuid(), os.getegid())
    try:
        folder.mkdir(mode=0o700)
        os.chown(folder, uid, gid)
    except FileExistsError:
        _check_private(folder, uid)
    except OSError as error:
        raise Misconfigured(f"cannot make the folder {folder}: {error.strerror}") from error


def _check_private(folder: Path, uid: int) -> None:
    found = folder.lstat()
    if folder.is_symlink() or not folder.is_dir() or found.st_uid != uid:
        raise Misconfigured(
            f"{folder} is not a folder of user id {uid} (it belongs to {found.st_uid}): "
            "use a home folder of your own, or run as its owner"
        )
    if found.st_mode & 0o077:
        folder.chmod(0o700)


def serves(pid: int, program: str, folder: Path) -> bool:
    """Whether process `pid` runs `program` in `folder`: the number alone may be another process's by now."""
    try:
        process = psutil.Process(pid)
        return process.name() == program and Path(process.cwd()) == folder
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return False


def anybody_serves(program: str, folder: Path) -> bool:
    """Whether any process runs `program` in `folder`, such as the children of a server that was killed."""
    return any(serves(pid, program, folder) for pid in psutil.pids())


def pid_in(path: Path) -> int | None:
    """The process id on the first line of a file; None when there is no such file or line."""
    try:
        first = path.read_text().split("\n", 1)[0].strip()
    except FileNotFoundError:
        return None
    return int(first) if first.isdecimal() else None


def tail(log: Path) -> str:
    """The last lines of a server's log, for an error message."""
    try:
        lines = log.read_text(errors="replace").splitlines()
    except OSError:
        return f"(no log at {log})"
    return "\n".join([f"Last lines of {log}:", *lines[-TAIL_LINES:]])
