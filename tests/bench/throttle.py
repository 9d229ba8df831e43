"""The shared throttle under load: worker processes that all want more than the limit, in real time, on a real Valkey.

python -m tests.bench.throttle --workers 4 --seconds 60

Counts what was granted in every window of the length of the limit's own: how far the fullest passed the limit, and
how much of it was used from the first window's end on.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from bisect import bisect_left
from pathlib import Path
from typing import Any

from core.adapters.embedded_valkey import start_valkey, stop_valkey

REQUESTS, TOKENS, COST = 3000, 60_000, 25  # a window; so that tokens bind before requests do

# A worker: some threads, each of which asks for one request after another as fast as it may.
WORKER = """
import json, sys, threading, time, uuid
from datetime import timedelta
from core.adapters.redis_server import RedisServer
from core.adapters.redis_throttle import RedisThrottle
from core.model.quota import Grant, Quota
url, seconds, window, requests, tokens, cost = sys.argv[1], *map(float, sys.argv[2:])
server = RedisServer(url, timeout=timedelta(seconds=2))
throttle = RedisThrottle(server, prefix="bench:", share=0.25, window=timedelta(seconds=window))
quota = Quota(requests_per_minute=int(requests), tokens_per_minute=int(tokens))
granted, ends = [], time.monotonic() + seconds
def work(tenant):
    while time.monotonic() < ends:
        owner = uuid.uuid4().hex
        while time.monotonic() < ends:
            told = throttle.take("key", int(cost), "bulk", quota, owner, tenant)
            if isinstance(told, Grant):
                granted.append(time.time())
                time.sleep(0.005)
                throttle.give_back("key", told, int(cost))
                break
            time.sleep(min(told.seconds, max(0.0, ends - time.monotonic())))
threads = [threading.Thread(target=work, args=(f"tenant {n}",)) for n in range(4)]
[one.start() for one in threads]
[one.join() for one in threads]
print(json.dumps(granted))
"""


def run(workers: int, seconds: float, window: float) -> dict[str, Any]:
    """What the workers were granted together."""
    with tempfile.TemporaryDirectory(prefix="memory-bench-") as home:
        url = start_valkey(Path(home) / "home")
        try:
            arguments = [url, *map(str, (seconds, window, REQUESTS, TOKENS, COST))]
            command = [sys.executable, "-c", WORKER, *arguments]
            started = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(workers)]
            told = [one.communicate(timeout=seconds + 60)[0] for one in started]
        finally:
            stop_valkey(Path(home) / "home")
    moments = sorted(moment for one in told for moment in json.loads(one))
    limit = min(REQUESTS, TOKENS // COST)
    begin, end = moments[0], moments[-1]
    fullest = max(bisect_left(moments, moment + window) - at for at, moment in enumerate(moments))
    return {
        "workers": workers,
        "seconds": seconds,
        "window_s": window,
        "limit_a_window": limit,
        "granted": len(moments),
        "fullest_window": round(fullest / limit, 4),
        "used": round(len(moments) / ((end - begin) / window * limit), 4),
    }


def main() -> None:
    """Measure with a window much shorter than the run, and with one as long."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=60.0)
    chosen = parser.parse_args()
    windows = (chosen.seconds / 6, chosen.seconds)
    print(json.dumps([run(chosen.workers, chosen.seconds, window) for window in windows], indent=2))


if __name__ == "__main__":
    main()
