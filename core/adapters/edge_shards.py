"""The shards a process has open: shared by its threads, few at a time, let go when another process waits."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.adapters.edge_hold import Hold, held
from core.errors import NotFound, Unavailable

_WATCH_SECONDS = 0.02


@dataclass(slots=True)
class _Open:
    """An open shard: how many calls run on it, and whether it is to be closed when the last one ends."""

    shard: Any
    hold: Hold
    running: int = 0
    leaving: bool = False


class OpenShards:
    """Opens shards when they are asked for and keeps up to `keep_open` of them open. Thread-safe."""

    def __init__(self, root: Path, load: Callable[[Path], Any], wait_seconds: float, keep_open: int) -> None:
        self._root = root
        self._load = load
        self._wait_seconds = wait_seconds
        self._keep_open = keep_open
        self._open: OrderedDict[str, _Open] = OrderedDict()
        self._opening: set[str] = set()
        self._changed = threading.Condition()
        self._watcher: threading.Thread | None = None
        self._closed = False

    @contextmanager
    def use(self, collection: str) -> Iterator[Any]:
        """The open shard of a collection, for one call. Raises NotFound, Busy (with the holder's name)."""
        entry = self._enter(collection)
        try:
            yield entry.shard
        finally:
            with self._changed:
                entry.running -= 1
                entry.leaving = entry.leaving or entry.hold.wanted()
                if entry.leaving and not entry.running:
                    self._shut(collection)
                self._make_room(self._keep_open)

    def let_go(self, collection: str) -> None:
        """Close a shard once its calls have ended, if it is open."""
        with self._changed:
            entry = self._open.get(collection)
            if entry is None:
                return
            entry.leaving = True
            if not self._changed.wait_for(lambda: not entry.running, self._wait_seconds):
                raise Unavailable(f"calls on collection {collection} do not end")
            if self._open.get(collection) is entry:
                self._shut(collection)

    def close(self) -> None:
        """Close every shard; calls that still run are waited for. Raises Unavailable when they do not end."""
        with self._changed:
            self._closed = True
            for name, entry in list(self._open.items()):
                entry.leaving = True
                if not entry.running:
                    self._shut(name)
            self._changed.notify_all()
            ended = self._changed.wait_for(lambda: not self._open and not self._opening, self._wait_seconds)
            watcher = self._watcher
        if watcher is not None:
            watcher.join(self._wait_seconds)
        if not ended:
            raise Unavailable("calls on the index do not end")

    def _enter(self, collection: str) -> _Open:
        # One deadline for all the waiting of a call: behind other threads, then behind other processes.
        deadline = time.monotonic() + self._wait_seconds
        with self._changed:
            while True:
                self._refuse_closed()
                entry = self._open.get(collection)
                if entry is not None and not entry.leaving:
                    entry.running += 1
                    self._open.move_to_end(collection)
                    return entry
                if entry is None and collection not in self._opening:
                    self._opening.add(collection)
                    break
                if not self._changed.wait(deadline - time.monotonic()):
                    raise held(self._root / collection)
        try:
            return self._opened(collection, deadline)
        finally:
            with self._changed:
                self._opening.discard(collection)
                self._changed.notify_all()

    def _opened(self, collection: str, deadline: float) -> _Open:
        folder = self._root / collection
        if not folder.is_dir():
            raise NotFound(f"there is no collection {collection}")
        hold = Hold(folder)
        hold.take(deadline - time.monotonic())
        try:
            if not folder.is_dir():
                raise NotFound(f"there is no collection {collection}")
            with self._changed:
                self._make_room(self._keep_open - 1)
            return self._kept(collection, self._load(folder), hold)
        except BaseException:
            hold.release()
            raise

    def _kept(self, collection: str, shard: Any, hold: Hold) -> _Open:
        with self._changed:
            if self._closed:
                shard.close()
            self._refuse_closed()
            entry = _Open(shard, hold, running=1)
            self._open[collection] = entry
            if self._watcher is None:
                self._watcher = threading.Thread(target=self._watch, name="edge-shards", daemon=True)
                self._watcher.start()
        return entry

    def _refuse_closed(self) -> None:
        if self._closed:
            raise Unavailable("the index is closed")

    def _make_room(self, most: int) -> None:
        """Close idle shards, the least recently used first, until at most `most` are open."""
        idle = [name for name, entry in self._open.items() if not entry.running]
        for name in idle[: max(0, len(self._open) - most)]:
            self._shut(name)

    def _shut(self, collection: str) -> None:
        entry = self._open.pop(collection)
        try:
            entry.shard.close()
        finally:
            entry.hold.release()
            self._changed.notify_all()

    def _watch(self) -> None:
        """Let idle shards go when another process waits for them; ends when nothing is open."""
        with self._changed:
            try:
                while self._open and not self._closed:
                    for name, entry in list(self._open.items()):
                        if not entry.running and entry.hold.wanted():
                            self._shut(name)
                    self._changed.wait_for(lambda: self._closed, _WATCH_SECONDS)
            finally:
                self._watcher = None
