"""How fast objects go to and from S3 in bulk: through our port beside the bare library, on one server.

python -m tests.bench.blobs --objects 2000 --bytes 600
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import uuid
from collections.abc import Callable
from contextlib import closing
from typing import Any

from obstore.fsspec import FsspecStore

from core.adapters.fsspec_blobs import open_s3
from tests.bench.limits import timed
from tests.seaweed import S3Server, running_s3
from tests.servers import temporary_home

BUCKET = "bench"
BATCH = 64


def ours(server: S3Server, client: str, objects: dict[str, bytes]) -> dict[str, float]:
    """Through the port: every put read back, nothing overwritten."""
    options = server.options(BUCKET, prefix=uuid.uuid4().hex, client=client)
    with closing(open_s3(options)) as blobs:
        blobs.stat("warm")
        put = timed(lambda: must_be(blobs.put_many(objects), {}))
        get = timed(lambda: must_be(blobs.get_many(list(objects)), objects))
        blobs.delete_many(list(objects))
    return rates(len(objects), put, get)


def bare(files: Any, objects: dict[str, bytes]) -> dict[str, float]:
    """The library's own bulk calls (`pipe`, `cat`): over whatever is there, and nothing read back."""
    prefix = f"{BUCKET}/{uuid.uuid4().hex}"
    named = {f"{prefix}/{key}": data for key, data in objects.items()}
    files.pipe({f"{prefix}/warm": b""})
    put = timed(lambda: files.pipe(named, batch_size=BATCH))
    get = timed(lambda: must_be(files.cat(list(named), batch_size=BATCH), named))
    return rates(len(objects), put, get)


def bare_obstore(server: S3Server) -> FsspecStore:
    """obstore as an fsspec implementation."""
    return FsspecStore(
        "s3",
        config={
            "endpoint": server.endpoint,
            "access_key_id": server.key_id,
            "secret_access_key": server.secret,
            "region": "us-east-1",
        },
        client_options={"allow_http": True},
        skip_instance_cache=True,
    )


def must_be(found: object, expected: object) -> None:
    """A figure of work that was not done is worth nothing."""
    if found != expected:
        raise SystemExit("the store did not do what was asked")


def rates(count: int, put: float, get: float) -> dict[str, float]:
    """Objects a second."""
    return {"put_per_s": count / put, "get_per_s": count / get}


def median_of(runs: list[dict[str, float]]) -> dict[str, int]:
    """The median of each figure."""
    return {name: round(statistics.median(run[name] for run in runs)) for name in runs[0]}


def measured(server: S3Server, objects: dict[str, bytes], rounds: int) -> dict[str, dict[str, int]]:
    """Every candidate in turn, several times over, so that a busy moment hits all alike."""
    server.other_client().mkdir(BUCKET)
    candidates: dict[str, Callable[[], dict[str, float]]] = {
        "s3fs, our port": lambda: ours(server, "s3fs", objects),
        "s3fs, bare": lambda: bare(server.other_client(), objects),
        "obstore, our port": lambda: ours(server, "obstore", objects),
        "obstore, bare (fsspec)": lambda: bare(bare_obstore(server), objects),
    }
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in candidates}
    for _ in range(rounds):
        for name, run in candidates.items():
            runs[name].append(run())
    return {name: median_of(found) for name, found in runs.items()}


def main() -> None:
    """Print the figures as JSON."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--objects", type=int, default=2000)
    arguments.add_argument("--bytes", type=int, default=600)
    arguments.add_argument("--rounds", type=int, default=3)
    chosen = arguments.parse_args()
    objects = {f"{number % 10}/{number}": os.urandom(chosen.bytes) for number in range(chosen.objects)}
    with temporary_home() as home, running_s3(home) as server:
        print(json.dumps(measured(server, objects, chosen.rounds), indent=2))


if __name__ == "__main__":
    main()
