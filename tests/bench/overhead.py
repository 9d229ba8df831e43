"""What Prefect costs a bulk load: `python -m tests.bench.overhead`.

The same portions, cut by the same plan, are done by a plain loop and by the flow, each in a process of its own that is
warm when the clock starts (imports, model, stores, Prefect's server). Runs come in pairs on fresh tenants of the same
size in the same stores, and which of the two is first alternates, so that neither has the warmer caches. The medians of
seconds and of processor seconds count; those of Prefect's server are told apart, for in production it is elsewhere.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import psutil

from core.assembly import Engine, open_engine
from core.batch.embed import plan, step
from core.model.memory import Draft
from core.settings import load_settings
from tests.bench.homes import fresh_home
from tests.bench.texts import texts

SECONDS = 1800
RECORDED_IN = 3.0
FIGURES = ("seconds", "cpu_s", "server_cpu_s")
# One task at a time, as the loop has it.
ALONE = {"MEMORY_EMBED_TASKS": "1"}


def fill(tenant: str, records: int) -> None:
    """Texts of a tenant, which wait to be embedded."""
    contents = texts(records, random.Random(tenant))
    with open_engine(load_settings()) as engine:
        drafts = (Draft(id=f"b{number}", content=f"{number} {text}") for number, text in enumerate(contents))
        for _ in engine.write_many(tenant, drafts):
            pass


def worked(how: str, tenant: str) -> None:
    """Do all of a tenant's work by the loop or by the flow, and print what it took."""
    from deployments.prefect_settings import settle_prefect, start_prefect
    from tasks.engine import engine_kept_open, shared_engine

    settings = load_settings()
    settle_prefect(settings.home)
    with shared_engine() as engine:
        engine._models.default.embed(["warm"], "document")
        if how == "flow":
            start_prefect()
            from flows.embed import embed

            states: list[Any] = []
            seconds = measured(lambda: states.append(embed(tenants=[tenant], return_state=True)))
            seconds |= tasks_of(states[0])
        else:
            with engine_kept_open():
                seconds = measured(lambda: looped(engine, tenant))
        (left,) = engine.backlog([tenant])
        assert left.waiting + left.set_aside == 0
    sys.stdout.write(json.dumps(seconds) + "\n")


def looped(engine: Engine, tenant: str) -> None:
    """The portions of the plan, one after the other, and no orchestrator."""
    for portion in plan(engine.backlog([tenant]), engine.settings.embed_portion):
        step(engine.embed_work(), portion)
    engine.safekeeping.ledger().ship()


def tasks_of(state: Any) -> dict[str, float]:
    """How many tasks a run was, and the median seconds of those that embed."""
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId

    chosen = FlowRunFilter(id=FlowRunFilterId(any_=[state.state_details.flow_run_id]))
    time.sleep(RECORDED_IN)  # the server records what tasks tell a moment later
    with get_client(sync_client=True) as client:
        found = client.read_task_runs(flow_run_filter=chosen)
    lasted = [one.total_run_time.total_seconds() for one in found if one.name.startswith("embed ")]
    return {"tasks": len(found), "task_s": statistics.median(lasted)}


def measured(do: Callable[[], object]) -> dict[str, float]:
    """Seconds, and processor seconds of this process and of those it started."""
    here = psutil.Process()
    before, others = here.cpu_times(), spent_below(here)
    started = time.perf_counter()
    do()
    seconds = time.perf_counter() - started
    after = here.cpu_times()
    own = after.user + after.system - before.user - before.system
    return {"seconds": seconds, "cpu_s": own, "server_cpu_s": spent_below(here) - others}


def spent_below(process: psutil.Process) -> float:
    """Processor seconds of the processes under this one."""
    return sum(one.cpu_times().user + one.cpu_times().system for one in process.children(recursive=True))


def compared(records: int, pairs: int) -> dict[str, Any]:
    """Medians of the loop and of the flow, and how much more the flow takes."""
    runs: dict[str, list[dict[str, float]]] = {"loop": [], "flow": []}
    with fresh_home(ALONE):
        for number in range(pairs):
            for how in ("loop", "flow") if number % 2 == 0 else ("flow", "loop"):
                tenant = f"{how}{number}"
                fill(tenant, records)
                runs[how].append(apart(how, tenant))
    medians = {how: {one: statistics.median(run[one] for run in done) for one in FIGURES} for how, done in runs.items()}
    return {
        "records": records,
        "pairs": pairs,
        "medians": medians,
        "tasks": runs["flow"][0]["tasks"],
        "task_s": statistics.median(run["task_s"] for run in runs["flow"]),
        "share_of_seconds": medians["flow"]["seconds"] / medians["loop"]["seconds"] - 1,
        "share_of_cpu": medians["flow"]["cpu_s"] / medians["loop"]["cpu_s"] - 1,
        "runs": runs,
    }


def apart(how: str, tenant: str) -> dict[str, float]:
    """One run in a process of its own."""
    command = [sys.executable, "-m", "tests.bench.overhead", "--how", how, "--tenant", tenant]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=SECONDS)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def main() -> None:
    """Compare, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--how", choices=["loop", "flow"], help="be one of the two")
    parser.add_argument("--tenant", default="")
    parser.add_argument("--records", type=int, default=30_000)
    parser.add_argument("--pairs", type=int, default=4)
    chosen = parser.parse_args()
    if chosen.how:
        worked(chosen.how, chosen.tenant)
        return
    rounded = json.loads(
        json.dumps(compared(chosen.records, chosen.pairs)), parse_float=lambda one: round(float(one), 3)
    )
    print(json.dumps(rounded, indent=2))


if __name__ == "__main__":
    main()
