"""Processes of one installation that stay: started in sessions of their own, known by id and birth, ended by both.

A process id alone may be another process's by now; with the moment it was born it is not.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from core.errors import Misconfigured, Unavailable

KILL_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Part:
    """A process by its name, id and birth."""

    name: str
    pid: int
    born: float

    @property
    def runs(self) -> bool:
        """Whether it is still there, and no other process under its id. One that ended is taken note of."""
        process = _process(self)
        if process is None:
            return False
        with suppress(psutil.NoSuchProcess):
            if process.status() == psutil.STATUS_ZOMBIE:
                psutil.wait_procs([process], 0)
                return False
        return bool(process.is_running())


@dataclass(frozen=True, slots=True)
class Standing:
    """What runs: the process that watches, its parts in the order of their start, and where people look."""

    address: str
    watcher: Part
    parts: tuple[Part, ...]


def this_process(name: str) -> Part:
    """The process that asks."""
    return Part(name, os.getpid(), psutil.Process().create_time())


def start_part(name: str, command: Sequence[str], log: Path) -> Part:
    """Start a process in a session of its own, so that Ctrl-C does not reach it; what it says goes to a file."""
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("wb") as output:
            process = psutil.Popen(
                list(command), stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )
        return Part(name, process.pid, process.create_time())
    except OSError as error:
        raise Misconfigured(f"{name} cannot be started: {error.strerror}") from error
    except psutil.NoSuchProcess as error:
        raise Unavailable(f"{name} ended at once: see {log}") from error


def end_parts(parts: Sequence[Part], seconds: float) -> list[str]:
    """Ask each in turn to end, wait so long for it, then kill what is left of it and of its children.

    Returns the names of those that ran.
    """
    ended = []
    for part in parts:
        process = _process(part)
        if process is None or not part.runs:
            continue
        ended.append(part.name)
        family = [process]
        with suppress(psutil.NoSuchProcess):
            family += process.children(recursive=True)
        with suppress(psutil.NoSuchProcess):
            process.terminate()
        psutil.wait_procs([process], seconds)
        for left in psutil.wait_procs(family, 0)[1]:
            with suppress(psutil.NoSuchProcess):
                left.kill()
        psutil.wait_procs(family, KILL_SECONDS)
    return ended


def note_standing(file: Path, standing: Standing) -> None:
    """Write down what runs, at one stroke."""
    file.parent.mkdir(parents=True, exist_ok=True)
    beside = file.with_suffix(".part")
    beside.write_text(json.dumps(asdict(standing)), encoding="utf-8")
    beside.replace(file)


def standing_in(file: Path) -> Standing | None:
    """What was written down; None when nothing was, or nothing that can be read."""
    try:
        kept = json.loads(file.read_text(encoding="utf-8"))
        return Standing(kept["address"], Part(**kept["watcher"]), tuple(Part(**one) for one in kept["parts"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _process(part: Part) -> psutil.Process | None:
    try:
        process = psutil.Process(part.pid)
        return process if abs(process.create_time() - part.born) < 1 else None
    except psutil.NoSuchProcess:
        return None
