"""Processes that tests kill: forked from one that has imported what they need, which takes each of them a second."""

from __future__ import annotations

import multiprocessing
import os
import sys
from multiprocessing.context import ForkServerContext

IMPORTED = [
    *("core.assembly", "core.adapters.qdrant_edge", "core.adapters.fsspec_blobs", "core.adapters.openai_batches"),
    *("tests.batch.batch_engine", "tests.batch.drifting", "tests.batch.keeping", "tests.batch.lifecycle_parts"),
    *("tests.batch.reindexing", "tests.contract.vector_index", "tests.forks"),
]


def ended(source: str, *arguments: str, seconds: float = 60) -> int:
    """What a program ends with: its exit code, or minus the signal that killed it. As `python -c` with arguments."""
    context = multiprocessing.get_context("forkserver")
    _prepare(context)
    process = context.Process(target=_run, args=(source, arguments, dict(os.environ)))
    process.start()
    process.join(seconds)
    if process.is_alive():
        process.kill()
        process.join()
        raise TimeoutError(f"not ended after {seconds} seconds")
    assert process.exitcode is not None
    return process.exitcode


def _prepare(context: ForkServerContext) -> None:
    context.set_forkserver_preload(IMPORTED)  # heeded by the first of a session, which starts the server


def _run(source: str, arguments: tuple[str, ...], environment: dict[str, str]) -> None:
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["-c", *arguments]
    exec(compile(source, "<victim>", "exec"), {"__name__": "__main__"})
