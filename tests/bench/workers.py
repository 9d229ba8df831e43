"""One backlog, 1, 2 and 4 worker processes, a provider that takes 50 ms: `python -m tests.bench.workers`.

Tenants are shared out, for a folder of Qdrant Edge is one process's at a time. Every text must be asked for once.
With `--killed` one of four is killed in the middle, and the others finish, its tenants among them once its leases
have run out. Processor seconds are told with the rates: workers, PostgreSQL and the provider share this machine's
cores, so that together they cannot be faster than these allow.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

import psutil

from core.assembly import open_engine
from core.batch.embed import Portion, step
from core.model.memory import Draft
from core.settings import Settings, load_settings
from tests.bench.homes import fresh_home
from tests.bench.texts import texts
from tests.openai_server import Fault, OpenAIServer

TENANTS = 8
SECONDS = 600
ROUNDS = 1000
ANSWERS_IN = 0.05
KEY = "sk-bench"
WARM = "warming up"
IDLE_CORES = 0.2


def through(server: OpenAIServer) -> dict[str, str]:
    """Settings by which texts go to the server, ten at a time."""
    return {
        "MEMORY_LEASE": "20",
        "MEMORY_EMBEDDING_PROVIDER": "openai",
        "MEMORY_EMBEDDING_MODEL": "text-embedding-3-small",
        "MEMORY_EMBEDDING_DIMENSIONS": "64",
        "MEMORY_EMBEDDING_URL": server.url,
        "MEMORY_EMBEDDING_API_KEY": KEY,
        "MEMORY_EMBED_BATCH": "10",
        "MEMORY_EMBED_WORKERS": "1",
    }


def fill(settings: Settings, records: int, tenants: int) -> None:
    """Distinct texts, the same number for each tenant."""
    contents = texts(records, random.Random(3))
    with open_engine(settings) as engine:
        for tenant in range(tenants):
            own = contents[tenant::tenants]
            drafts = (Draft(id=f"b{number}", content=f"{tenant} {number} {text}") for number, text in enumerate(own))
            for _ in engine.write_many(f"t{tenant}", drafts):
                pass


def work(tenants: Sequence[str]) -> None:
    """A worker: it waits for the word, then drains its tenants until nothing is left of them."""
    with open_engine(load_settings()) as engine:
        engine.backlog()
        engine._models.default.embed([f"{WARM} {os.getpid()}"], "document")  # imports and connection, before the word
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        sys.stdin.readline()
        before = spent(psutil.Process())
        for _ in range(ROUNDS):
            reports = [step(engine.embed_work(), Portion(tenant=name, records=10_000)) for name in tenants]
            if not any(one.waiting for one in engine.backlog(list(tenants))):
                break
            if not any(one.worked for one in reports):
                time.sleep(0.2)
        sys.stdout.write(f"{spent(psutil.Process()) - before}\n")


def spent(process: psutil.Process) -> float:
    """Processor seconds of a process, without those it started."""
    times = process.cpu_times()
    return times.user + times.system


def begun(tenants: Sequence[str]) -> subprocess.Popen[str]:
    """A worker process that is ready to start."""
    command = [sys.executable, "-m", "tests.bench.workers", "--work", *tenants]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    if process.stdout.readline().strip() != "ready":
        raise SystemExit("a worker did not start")
    return process


def go(process: subprocess.Popen[str]) -> None:
    """Give a worker the word."""
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()


def shared_out(workers: int, records: int, *, killed: bool = False) -> dict[str, Any]:
    """Records a second of so many workers, and how often the provider was asked for a text."""
    server = OpenAIServer(dimensions=64)
    server.told = lambda body: Fault(delay=ANSWERS_IN)
    try:
        with fresh_home(through(server)):
            settings = load_settings()
            fill(settings, records, TENANTS)
            names = [f"t{number}" for number in range(TENANTS)]
            processes = [begun(names[number::workers]) for number in range(workers)]
            before, started = spent(psutil.Process()), time.perf_counter()
            for process in processes:
                go(process)
            if killed:
                time.sleep(records / TENANTS / 10 * ANSWERS_IN)  # about the middle of what four need
                processes[0].kill()
                processes[0].wait(timeout=10)
                processes.append(begun(names[0::workers]))
                go(processes[-1])
            codes = [process.wait(timeout=SECONDS) for process in processes]
            seconds = time.perf_counter() - started
            told = [float(process.stdout.read() or 0) for process in processes if process.stdout is not None]
            cpu = {"workers": sum(told), "provider": spent(psutil.Process()) - before}
            with open_engine(settings) as engine:
                left = sum(one.waiting + one.set_aside for one in engine.backlog())
    finally:
        server.stop()
    asked = Counter(text for text in server.texts if not text.startswith(WARM))
    return {
        "workers": workers,
        "records_per_s": round(records / seconds, 1),
        "cpu_ms_a_record": {name: round(1000 * value / records, 2) for name, value in cpu.items()},
        "requests": len(server.requests) - len(processes),
        "texts_asked_twice": sum(count > 1 for count in asked.values()),
        "left": left,
        "ended": codes,
    }


def quiet() -> float:
    """Wait, ten minutes at the most, until nobody else uses the machine; how many cores are busy then."""
    busy = 0.0
    for _ in range(200):
        busy = psutil.cpu_percent(interval=3) / 100 * (psutil.cpu_count() or 1)
        if busy < IDLE_CORES:
            break
    return round(busy, 2)


def rounds_of(rounds: int, records: int) -> dict[str, Any]:
    """1, 2 and 4 workers in turn, so often. Whoever else uses the machine makes them slower and never faster.

    So the best of each counts, and the medians are told beside it.
    """
    runs = [{"busy_before": quiet(), **shared_out(number, records)} for _ in range(rounds) for number in (1, 2, 4)]
    found: dict[str, Any] = {}
    for name, chosen in (("best", max), ("median", statistics.median)):
        rates = {one: chosen(run["records_per_s"] for run in runs if run["workers"] == one) for one in (1, 2, 4)}
        times = {one: round(rate / rates[1], 2) for one, rate in rates.items()}
        found[name] = {"records_per_s": rates, "times_one": times}
    return {**found, "runs": runs}


def main() -> None:
    """Run what was asked for, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", nargs="+", help="be a worker for these tenants")
    parser.add_argument("--records", type=int, default=3000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--killed", action="store_true")
    chosen = parser.parse_args()
    if chosen.work:
        work(chosen.work)
    elif chosen.killed:
        print(json.dumps(shared_out(4, chosen.records, killed=True), indent=2))
    else:
        print(json.dumps(rounds_of(chosen.rounds, chosen.records), indent=2))


if __name__ == "__main__":
    main()
