"""The shards a process keeps open: bounded in number and in waiting, and never left locked."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FrameType

import pytest

from core.adapters.edge_hold import Hold
from core.adapters.edge_shards import OpenShards
from core.errors import Busy, Unavailable


class Shard:
    """Counts how often it is closed; closing may fail."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.closed = 0
        self.failure = failure

    def close(self) -> None:
        self.closed += 1
        if self.failure is not None:
            raise self.failure


@pytest.fixture
def opened() -> Iterator[Callable[..., OpenShards]]:
    made: list[OpenShards] = []

    def make(root: Path, load: Callable[[Path], object], wait: float = 5.0, keep_open: int = 8) -> OpenShards:
        made.append(OpenShards(root, load, wait, keep_open))
        return made[-1]

    yield make
    for shards in made:
        shards.close()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in "abcde":
        (tmp_path / name).mkdir()
    return tmp_path


def test_no_more_than_allowed_stay_open_when_calls_overlap(root: Path, opened: Callable[..., OpenShards]) -> None:
    shards = opened(root, lambda _: Shard(), keep_open=2)
    together = threading.Barrier(5)

    def call(name: str) -> None:
        with shards.use(name):
            together.wait(10)

    with ThreadPoolExecutor(5) as pool:
        list(pool.map(call, "abcde"))
    assert len(shards._open) == 2


def test_every_waiting_thread_is_told_who_holds_the_folder(root: Path, opened: Callable[..., OpenShards]) -> None:
    shards = opened(root, lambda _: Shard(), wait=0.3)
    hold = Hold(root / "a")
    hold.take(1)

    def refusal() -> str:
        with pytest.raises(Busy) as refused, shards.use("a"):
            pass
        return str(refused.value)

    with ThreadPoolExecutor(6) as pool:
        said = [asked.result(10) for asked in [pool.submit(refusal) for _ in range(6)]]
    hold.release()
    assert len(set(said)) == 1
    assert f"index folder a is held by process {os.getpid()} (" in said[0]


def test_an_interrupted_wait_gives_its_turn_back(root: Path) -> None:
    holder, waiting = Hold(root / "a"), Hold(root / "a")
    holder.take(1)

    class Interrupted(BaseException):
        pass

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise Interrupted

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(Interrupted):
            waiting.take(30)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert not holder.wanted()
    holder.release()
    following = Hold(root / "a")
    following.take(1)
    following.release()


def test_a_shard_that_cannot_be_closed_is_let_go_all_the_same(root: Path, opened: Callable[..., OpenShards]) -> None:
    shards = opened(root, lambda _: Shard(RuntimeError("no")))
    with shards.use("a"):
        pass
    with pytest.raises(RuntimeError):
        shards.let_go("a")
    hold = Hold(root / "a")
    hold.take(1)
    hold.release()


def test_what_opens_while_all_is_closed_is_closed_too(root: Path, opened: Callable[..., OpenShards]) -> None:
    shard, opening, closing = Shard(), threading.Event(), threading.Event()

    def load(_folder: Path) -> Shard:
        opening.set()
        assert closing.wait(10)
        return shard

    shards = opened(root, load)

    def refused() -> bool:
        with pytest.raises(Unavailable), shards.use("a"):
            pass
        return True

    with ThreadPoolExecutor(2) as pool:
        call = pool.submit(refused)
        assert opening.wait(10)
        close = pool.submit(shards.close)
        while not shards._closed:
            pass
        closing.set()
        close.result(10)
        assert call.result(10)
    assert shard.closed == 1
    hold = Hold(root / "a")
    hold.take(1)
    hold.release()
