"""Servers whose command was killed: they would run for ever, and nobody could say whose they are."""

from __future__ import annotations

from contextlib import suppress

import psutil

END_SECONDS = 5.0


def end_orphans(program: str, variable: str, value: str) -> int:
    """End every process of ours that runs `program` with this in its environment while its parent lacks it.

    Such a process was started by one that is gone. Returns how many there were.
    """
    orphans = [process for process in psutil.process_iter() if _is_orphan(process, program, variable, value)]
    for process in orphans:
        with suppress(psutil.NoSuchProcess):
            process.terminate()
    for process in psutil.wait_procs(orphans, END_SECONDS)[1]:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    return len(orphans)


def _is_orphan(process: psutil.Process, program: str, variable: str, value: str) -> bool:
    try:
        if program not in " ".join(process.cmdline()) or process.environ().get(variable) != value:
            return False
        parent = process.parent()
        return parent is None or parent.environ().get(variable) != value
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return False
    except psutil.AccessDenied:
        # Its parent is somebody else's, such as the first process of the machine.
        return bool(process.uids().real == psutil.Process().uids().real)
