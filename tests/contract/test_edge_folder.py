"""One index folder, several processes: who waits is served, who dies leaves nothing locked or lost."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from core.adapters.qdrant_edge import EdgeIndex
from core.errors import Busy
from tests.contract.test_vector_index import point
from tests.house.source import ROOT

WRITER = """
import sys
from datetime import timedelta
from pathlib import Path
from core.adapters.qdrant_edge import EdgeIndex
from tests.contract.test_vector_index import point
index = EdgeIndex(Path(sys.argv[1]), wait=timedelta(seconds=30))
for number in range(int(sys.argv[2])):
    index.upsert("c.g1", [point(f"w{number}")])
    print(number, flush=True)
index.close()
"""
STUBBORN = """
import sys, time
from datetime import timedelta
from pathlib import Path
from core.adapters.qdrant_edge import EdgeIndex
index = EdgeIndex(Path(sys.argv[1]), wait=timedelta(seconds=5))
with index._shards.use("c.g1"):
    print("held", flush=True)
    time.sleep(60)
"""


@contextmanager
def other_process(code: str, root: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(root), *arguments], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait(10)
        if process.stdout is not None:
            process.stdout.close()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    index = EdgeIndex(tmp_path, wait=timedelta(seconds=5))
    index.create("c.g1", 4)
    index.close()
    return tmp_path


def test_two_processes_take_turns_on_one_folder(root: Path) -> None:
    index = EdgeIndex(root, wait=timedelta(seconds=30))
    with other_process(WRITER, root, "40") as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "0\n"
        for number in range(40):
            index.upsert("c.g1", [point(f"m{number}")])
        assert writer.wait(60) == 0
    assert index.count("c.g1") == 80
    index.close()


def test_a_holder_that_does_not_let_go_is_named(root: Path) -> None:
    index = EdgeIndex(root, wait=timedelta(milliseconds=300))
    with other_process(STUBBORN, root) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(Busy, match=rf"held by process {holder.pid} \("):
            index.count("c.g1")
    assert index.count("c.g1") == 0
    index.close()


def test_what_was_acknowledged_survives_kill_9(root: Path) -> None:
    with other_process(WRITER, root, "100000") as writer:
        assert writer.stdout is not None
        acknowledged = [int(writer.stdout.readline()) for _ in range(50)]
        writer.send_signal(signal.SIGKILL)
        writer.wait(10)
    index = EdgeIndex(root, wait=timedelta(seconds=5))
    stored = index.stamps("c.g1", [point(f"w{number}").payload.embedding_id for number in acknowledged])
    assert len(stored) == len(acknowledged)
    index.close()


def test_a_half_made_collection_is_made_again(root: Path) -> None:
    (root / "c.g2.new" / "segments").mkdir(parents=True)
    index = EdgeIndex(root, wait=timedelta(seconds=5))
    assert index.collections() == {"c.g1"}
    index.create("c.g2", 4)
    assert index.count("c.g2") == 0
    index.close()


def test_few_folders_stay_open_and_closing_ends_the_watcher(root: Path) -> None:
    index = EdgeIndex(root, wait=timedelta(seconds=5), keep_open=2)
    for number in range(1, 6):
        index.create(f"c.g{number}", 4)
        index.upsert(f"c.g{number}", [point()])
    assert len(index._shards._open) <= 2
    assert index.count("c.g1") == 1
    index.close()
    index.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "edge-shards"]
