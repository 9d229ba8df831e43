"""Who holds an index folder. An Edge folder admits one process at a time; this makes that bearable.

Beside each folder stand two lock files, both used with flock, which the kernel frees when a process
dies. `hold` belongs to the process that has the folder open, and names it. `turn` is where a waiting
process stands: whoever wants the folder takes `turn`, then waits for `hold`, then gives `turn` back. A
holder that finds `turn` taken knows that somebody waits, closes as soon as no call of its own is
running, and must queue at `turn` itself to come back: so the one who waits always wins.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from pathlib import Path

from core.adapters.file_lock import lock_within, try_lock, unlock
from core.errors import Busy

_POLL_SECONDS = 0.003


class Hold:
    """The right to open one folder, from `take` until `release`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._turn = os.open(folder.with_name(f"{folder.name}.turn"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._hold = os.open(_hold_file(folder), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def take(self, seconds: float) -> None:
        """Wait for the folder for at most `seconds`. Raises Busy, naming the holder."""
        deadline = time.monotonic() + seconds
        try:
            self._wait(self._turn, deadline)
            self._wait(self._hold, deadline)
            # The program's name alone: arguments may hold a search text, and others read this file.
            line = f"{os.getpid()} ({Path(sys.argv[0]).name})"
            os.ftruncate(self._hold, 0)
            os.pwrite(self._hold, line.encode(errors="replace"), 0)
            unlock(self._turn)
        except BaseException:
            # An interrupt too: a `turn` left taken would shut everybody out for as long as this process lives.
            self._close()
            raise

    def wanted(self) -> bool:
        """Whether another process stands waiting for this folder."""
        if try_lock(self._turn):
            unlock(self._turn)
            return False
        return True

    def release(self) -> None:
        """Let others in."""
        with suppress(OSError):
            os.ftruncate(self._hold, 0)
        self._close()

    def _wait(self, descriptor: int, deadline: float) -> None:
        if not lock_within(descriptor, deadline - time.monotonic(), _POLL_SECONDS):
            raise held(self._folder)

    def _close(self) -> None:
        # Closing the descriptors gives the locks back.
        os.close(self._turn)
        os.close(self._hold)


def held(folder: Path) -> Busy:
    """The error that names who holds a folder."""
    try:
        holder = _hold_file(folder).read_text(encoding="utf-8", errors="replace") or "not known"
    except FileNotFoundError:
        holder = "not known"
    return Busy(f"index folder {folder.name} is held by process {holder}", holder=holder)


def _hold_file(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.hold")
