"""One index folder, several processes: who waits is served, who dies leaves nothing locked or lost."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from core.adapters.qdrant_edge import EdgeIndex
from core.errors import Busy, Refused, Unavailable
from core.model.point import Point
from core.model.query import Filters
from tests.contract.vector_index import ONES, key, payload, point, selection
from tests.house.source import ROOT

WRITER = """
import sys
from datetime import timedelta
from pathlib import Path
from core.adapters.qdrant_edge import EdgeIndex
from tests.contract.vector_index import point
index = EdgeIndex(Path(sys.argv[1]), wait=timedelta(seconds=30))
for number in range(int(sys.argv[2])):
    index.upsert("c.g1", [point(f"w{number}")])
    print(number, flush=True)
index.close()
"""
BULK = """
import sys
from datetime import timedelta
from pathlib import Path
from core.adapters.qdrant_edge import EdgeIndex
from tests.contract.vector_index import point
index = EdgeIndex(Path(sys.argv[1]), wait=timedelta(seconds=30))
points = [point(f"b{number}", version=number + 1) for number in range(1000)]
while True:
    index.upsert("c.g1", points)
    print("written", flush=True)
"""
MAKER = """
import sys
from datetime import timedelta
from pathlib import Path
from core.adapters.qdrant_edge import EdgeIndex
index = EdgeIndex(Path(sys.argv[1]), wait=timedelta(seconds=5))
print("begins", flush=True)
index.create("c.g2", 4)
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
    with other_process(WRITER, root, "15") as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "0\n"
        for number in range(15):
            index.upsert("c.g1", [point(f"m{number}")])
        assert writer.wait(60) == 0
    assert index.count("c.g1") == 30
    index.close()


def test_a_question_waits_for_one_batch_of_a_process_that_never_stops_writing(root: Path) -> None:
    index = EdgeIndex(root, wait=timedelta(seconds=30))
    with other_process(BULK, root) as writer:
        assert writer.stdout is not None
        for _ in range(3):
            assert writer.stdout.readline() == "written\n"
            assert index.count("c.g1") == 1000
        assert [stamp.version for stamp in index.stamps("c.g1", [key("b7")]).values()] == [8]
        assert writer.poll() is None
    index.close()


def test_a_scroll_goes_on_where_it_was_after_another_process_had_the_folder(root: Path) -> None:
    index, other = (EdgeIndex(root, wait=timedelta(seconds=30)) for _ in range(2))
    index.upsert("c.g1", [point(f"s{number}") for number in range(5000)])
    pages = index.scroll("c.g1")
    seen = [next(pages)[0] for _ in range(2500)]
    other.upsert("c.g1", [point(f"s{number}", version=2) for number in range(5000)])
    later = list(pages)
    assert seen + [point_id for point_id, _ in later] == sorted(key(f"s{number}") for number in range(5000))
    assert {stamp.version for _, stamp in later[-1000:]} == {2}
    index.close()
    other.close()


def test_a_batch_of_many_versions_takes_the_folder_once(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Taking it costs a tenth of a second when others want it too: once a version would be minutes a batch."""
    index = EdgeIndex(root, wait=timedelta(seconds=5))
    taken: list[str] = []
    use = index._shards.use

    def counted(name: str) -> AbstractContextManager[Any]:
        taken.append(name)
        return use(name)

    monkeypatch.setattr(index._shards, "use", counted)
    index.upsert("c.g1", [point(str(number), version=number + 1) for number in range(500)])
    index.set_payload("c.g1", [payload(str(number), version=number + 2) for number in range(500)])
    index.delete("c.g1", {key(str(number)): number + 2 for number in range(500)})
    assert taken == ["c.g1"] * 3
    assert index.count("c.g1") == 0
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


def test_a_killed_create_leaves_nothing_or_a_whole_collection(root: Path) -> None:
    index = EdgeIndex(root, wait=timedelta(seconds=5))
    for pause in (0.0, 0.04, 0.08):
        with other_process(MAKER, root) as maker:
            assert maker.stdout is not None
            assert maker.stdout.readline() == "begins\n"
            time.sleep(pause)
            maker.send_signal(signal.SIGKILL)
            maker.wait(10)
        if "c.g2" not in index.collections():
            index.create("c.g2", 4)
        index.upsert("c.g2", [point()])
        assert index.count("c.g2") == 1
        index.drop("c.g2")
    assert not list(root.glob("*.new"))
    index.close()


def test_what_a_killed_drop_left_is_removed_by_the_next(root: Path) -> None:
    index = EdgeIndex(root, wait=timedelta(seconds=5))
    index.create("c.g2", 4)
    (root / "c.g2").rename(root / "c.g2.dropped")
    assert index.collections() == {"c.g1"}
    index.drop("c.g2")
    assert not (root / "c.g2.dropped").exists()
    index.close()


def test_a_folder_is_not_waited_for_with_the_aliases_locked(root: Path) -> None:
    """A drop that has to wait must not stop the swaps of other tenants meanwhile."""
    index, other = EdgeIndex(root, wait=timedelta(milliseconds=300)), EdgeIndex(root, wait=timedelta(seconds=5))
    index.create("c.g2", 4)
    with other._shards.use("c.g2"), ThreadPoolExecutor(1) as pool:
        drop = pool.submit(index.drop, "c.g2")
        while not drop.done():
            EdgeIndex(root, wait=timedelta(0)).point_alias("c.live", "c.g1", index.alias("c.live"))
        assert isinstance(drop.exception(), Busy)
    index.drop("c.g2")
    index.close()
    other.close()


def test_what_the_engine_cannot_hold_is_refused_as_an_error_of_ours(root: Path) -> None:
    index = EdgeIndex(root, wait=timedelta(seconds=5))
    for value in (float("nan"), "\ud800"):
        bad = replace(payload(), fields={"tenant": value})
        with pytest.raises(Refused, match=str(key())):
            index.upsert("c.g1", [Point(bad, ONES)])
        with pytest.raises(Refused):
            index.set_payload("c.g1", [bad])
    with pytest.raises(Refused):
        index.search("c.g1", ONES, selection(Filters(project="\ud800")), 5)
    assert index.count("c.g1") == 0
    index.close()


def test_a_damaged_folder_or_alias_is_unavailable_with_the_cause(root: Path) -> None:
    (root / "c.g1" / "edge_config.json").write_text("{")
    (root / "c.live.alias").write_text("{")
    index = EdgeIndex(root, wait=timedelta(seconds=5))
    for ask in (lambda: index.count("c.g1"), lambda: index.alias("c.live")):
        with pytest.raises(Unavailable) as failure:
            ask()
        assert failure.value.__cause__ is not None
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
