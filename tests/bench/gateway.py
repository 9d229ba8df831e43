"""What the way to a provider costs: requests beside a bare `openai` client, and a drain beside what latency allows.

python -m tests.bench.gateway --texts 4000

The provider is a server of this machine's own, which shares its two cores with what is measured.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import openai

from core.adapters.embedding_presets import options_for
from core.adapters.openai_embedder import OpenAIEmbedder
from core.assembly import open_engine
from core.assembly.stores import prepare_record, stop_embedded
from core.batch.embed import Portion, step
from core.index.packing import LearnedLimits
from core.index.throttled import bulk_slots
from core.index.vectors import embed_all
from core.model.memory import Draft
from core.model.quota import Quota
from core.settings import load_settings
from tests.bench.limits import timed
from tests.bench.texts import texts

MODEL, WIDTH = "text-embedding-3-small", 256
ROUNDS = 5
# Seconds a provider takes, requests at once (of which a part is kept for queries), texts a request. Each latency once
# where latency is the limit, and once where this machine's processors are.
DRAINS = [(0.02, 2, 25), (0.02, 4, 50), (0.2, 4, 50), (0.2, 11, 50)]


# The provider in a process of its own: in ours its threads would hold the interpreter lock against us. Its vectors are
# made beforehand, by place, so that it answers after the time that is asked for and not after its own work too.
PROVIDER = """
import random, sys, time
from tests.openai_server import OpenAIServer, in_base64
width, latency = int(sys.argv[1]), float(sys.argv[2])
rows = [[random.gauss(0, 1) for _ in range(width)] for _ in range(256)]
shown = {"base64": [in_base64(row) for row in rows], "float": rows}
class Quick(OpenAIServer):
    def embeddings(self, request, fault):
        known = shown[request.body.get("encoding_format", "float")]
        data = [{"object": "embedding", "index": at, "embedding": known[at]} for at in range(len(request.texts))]
        usage = {"prompt_tokens": 10 * len(data), "total_tokens": 10 * len(data)}
        time.sleep(latency)
        return {"object": "list", "data": data, "model": request.body["model"], "usage": usage}
server = Quick(width)
print(server.server_port, flush=True)
sys.stdin.read()
"""


@contextmanager
def provider(latency: float) -> Iterator[int]:
    """The port of a provider that takes so long to answer."""
    command = [sys.executable, "-c", PROVIDER, str(WIDTH), str(latency)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield int(process.stdout.readline())
        process.kill()


def overhead(port: int, contents: Sequence[str], size: int, at_once: int) -> dict[str, float]:
    """Seconds per 1,000 texts through our packing, checking and reading of answers, and through the bare client."""
    url = f"http://127.0.0.1:{port}/v1"
    ours = OpenAIEmbedder(options_for("openai", MODEL, dimensions=WIDTH, base_url=url, api_key="k"))
    bare = openai.OpenAI(base_url=url, api_key="k", max_retries=0)
    parts = [list(contents[start : start + size]) for start in range(0, len(contents), size)]
    learned = LearnedLimits()

    def through_ours(part: list[str]) -> None:
        assert len(embed_all(ours, dict(enumerate_text(part)), learned).vectors) == len(part)

    def through_bare(part: list[str]) -> None:
        answer = bare.embeddings.create(input=part, model=MODEL, dimensions=WIDTH)
        assert len(answer.data) == len(part)

    with ThreadPoolExecutor(at_once) as pool:
        for call in (through_ours, through_bare):
            list(pool.map(call, parts[:at_once]))
        pairs = [
            (timed(lambda: list(pool.map(through_ours, parts))), timed(lambda: list(pool.map(through_bare, parts))))
            for _ in range(ROUNDS)
        ]
    ours.close()
    bare.close()
    thousands = len(contents) / 1000
    return {
        "ours_s_per_1000": round(statistics.median(one for one, _ in pairs) / thousands, 4),
        "bare_s_per_1000": round(statistics.median(one for _, one in pairs) / thousands, 4),
        "ratio": round(statistics.median(one / other for one, other in pairs), 3),
    }


def enumerate_text(part: Sequence[str]) -> list[tuple[str, str]]:
    """The texts with a key each."""
    return [(str(number), text) for number, text in enumerate(part)]


def drain(port: int, contents: Sequence[str], latency: float, at_once: int, size: int) -> dict[str, Any]:
    """Records a second of a drain while the provider takes its time, beside concurrency / latency x batch.

    The concurrency is what documents may have: a part of the slots is kept for queries. What a bare client gets at
    that concurrency and batch says how much of the ideal this machine, and the provider on it, can do.
    """
    with tempfile.TemporaryDirectory(prefix="memory-bench-") as home:
        settings = load_settings(
            home=Path(home) / "home",
            embedding_provider="openai",
            embedding_model=MODEL,
            embedding_dimensions=WIDTH,
            embedding_url=f"http://127.0.0.1:{port}/v1",
            embedding_api_key="k",
            embed_batch=size,
            # More batches than requests: while some wait for the provider, others read and write.
            embed_workers=2 * at_once,
            embedding_at_once=at_once,
            connections=2 * at_once + 2,
        )
        try:
            prepare_record(settings)
            with open_engine(settings) as engine:
                # The client's library takes a second to import, and connections are made when they are first needed.
                warm = [Draft(content=f"warm {number}") for number in range(4 * at_once * size)]
                list(engine.write_many("bench", warm))
                step(engine.embed_work(), Portion(tenant="bench", records=len(warm)))
                list(engine.write_many("bench", [Draft(id=f"b{n}", content=text) for n, text in enumerate(contents)]))
                spent = timed(lambda: step(engine.embed_work(), Portion(tenant="bench", records=len(contents))))
        finally:
            stop_embedded(settings)
    slots = bulk_slots(Quota(at_once=at_once, kept_for_queries=settings.embedding_kept_for_queries)) or at_once
    rate, ideal, bare = len(contents) / spent, slots / latency * size, bare_rate(port, contents, slots, size)
    return {
        "latency_ms": latency * 1000,
        "at_once": at_once,
        "for_documents": slots,
        "batch": size,
        "records_per_s": round(rate),
        "ideal_per_s": round(ideal),
        "share": round(rate / ideal, 3),
        "bare_client_per_s": round(bare),
        "share_of_bare_client": round(rate / bare, 3),
    }


def bare_rate(port: int, contents: Sequence[str], at_once: int, size: int) -> float:
    """Texts a second of the bare client, so many requests at once and nothing else to do."""
    bare = openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="k", max_retries=0)
    parts = [list(contents[start : start + size]) for start in range(0, len(contents), size)]

    def ask(part: list[str]) -> None:
        assert len(bare.embeddings.create(input=part, model=MODEL, dimensions=WIDTH).data) == len(part)

    with ThreadPoolExecutor(at_once) as pool:
        ask(parts[0])
        spent = timed(lambda: list(pool.map(ask, parts)))
    bare.close()
    return len(contents) / spent


def main() -> None:
    """Measure both, and print them."""
    logging.getLogger("httpx2").setLevel(logging.WARNING)  # a line a request, where somebody set logging up
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--texts", type=int, default=4000)
    chosen = parser.parse_args()
    contents = texts(chosen.texts, random.Random(3))
    figures: dict[str, Any] = {"drain": []}
    with provider(0) as port:
        figures["overhead"] = overhead(port, contents, 100, 4)
    for latency, at_once, size in DRAINS:
        with provider(latency) as port:
            figures["drain"].append(drain(port, contents, latency, at_once, size))
    figures["load_of_the_machine"] = round(os.getloadavg()[0], 1)
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
