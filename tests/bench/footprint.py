"""How much memory the draining process takes as the corpus grows: `memory run embed`, a process of its own."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

from core.assembly import open_engine
from core.assembly.stores import prepare_record
from core.model.memory import Draft
from core.settings import Settings
from tests.bench.texts import texts

BOUND_SECONDS = 1800


def drained(settings: Settings, records: int) -> dict[str, float]:
    """Import, drain in another process, and tell that process's peak memory and speed.

    The index lives in the process: its vectors are files mapped into memory, which the kernel takes back
    when it needs the room, so the process's own memory is shown apart (peaks, in MB).
    """
    prepare_record(settings)
    with open_engine(settings) as engine:
        drafts = (Draft(id=f"b{n}", content=text) for n, text in enumerate(texts(records, random.Random(3))))
        for _ in engine.write_many("bench", drafts):
            pass
    start = time.perf_counter()
    command = [str(Path(sys.executable).with_name("memory")), "run", "embed"]
    resident, own = peaks_of(command, {"MEMORY_HOME": str(settings.home)})
    return {
        "records": records,
        "resident_mb": round(resident / 1024),
        "own_mb": round(own / 1024),
        "seconds_with_start": round(time.perf_counter() - start, 1),
    }


def peaks_of(command: list[str], chosen: dict[str, str]) -> tuple[int, int]:
    """Peak resident and peak anonymous memory (KB) of a process that must end well within half an hour."""
    process = subprocess.Popen(command, env={**os.environ, **chosen}, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + BOUND_SECONDS
    own = 0
    while time.monotonic() < deadline:
        ended, status, used = os.wait4(process.pid, os.WNOHANG)
        if ended:
            if status:
                raise SystemExit(f"the drain ended with status {status}")
            return int(used.ru_maxrss), own
        own = max(own, anonymous(process.pid))
        time.sleep(0.05)
    process.kill()
    raise SystemExit("the drain did not end")


def anonymous(pid: int) -> int:
    """Memory of a process that belongs to no file, in KB; 0 when it has just ended."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace").split("\n")
    return next((int(line.split()[1]) for line in lines if line.startswith("RssAnon:")), 0)
