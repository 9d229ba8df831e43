"""Locks between processes on one machine: flock on a file, which the kernel frees when a process dies."""

from __future__ import annotations

import fcntl
import time


def try_lock(descriptor: int) -> bool:
    """Take the exclusive lock of an open file at once; False when another process has it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def lock_within(descriptor: int, seconds: float, pause: float) -> bool:
    """Take the exclusive lock of an open file, trying every `pause` seconds; False when the time is up."""
    deadline = time.monotonic() + seconds
    while not try_lock(descriptor):
        if time.monotonic() > deadline:
            return False
        time.sleep(pause)
    return True


def unlock(descriptor: int) -> None:
    """Give the lock back."""
    fcntl.flock(descriptor, fcntl.LOCK_UN)
