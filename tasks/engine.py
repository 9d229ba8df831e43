"""The engine of this process, shared by all of its tasks: opened for the first user, closed by the last."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from core.assembly import Engine, open_engine
from core.assembly.logs import set_up_logs
from core.errors import EngineError, Transient
from core.settings import Settings, load_settings

# Objects made before the collector of cycles looks at them (Python's own: 700). A batch makes tens of thousands that
# reference counts free; looking at them again and again is a fifth of a bulk run.
YOUNG_OBJECTS = 50_000


class _Shared:
    """Counts who needs the engine. It opens and closes under the lock: nobody meets a half-open one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holders = 0
        self._opened = ExitStack()
        self._engine: Engine | None = None
        self.stopping = threading.Event()

    def hold(self) -> None:
        """Keep the engine open once it is; opens nothing."""
        with self._lock:
            self._holders += 1

    def let_go(self) -> None:
        """One holder less; the last one closes."""
        with self._lock:
            self._holders -= 1
            if self._holders == 0:
                self.stopping.clear()
                self._engine = None
                self._opened.close()

    def opened(self) -> Engine | None:
        """The engine, if somebody has opened it."""
        with self._lock:
            return self._engine

    def engine(self) -> Engine:
        """The engine, opened now if nobody has yet. Only for those who hold it."""
        with self._lock:
            if self._engine is None:
                settings = load_settings()
                set_up_logs(settings)  # a task may be the first thing of ours in this process
                self._opened.enter_context(_collecting_seldom())
                self._engine = self._opened.enter_context(open_engine(settings))
            return self._engine


@contextmanager
def _collecting_seldom() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(YOUNG_OBJECTS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


_shared = _Shared()


@contextmanager
def shared_engine() -> Iterator[Engine]:
    """The engine of this process, by the settings in force when the first user came.

    Raises Unavailable or Misconfigured when it cannot be opened; the next user tries again.
    """
    _shared.hold()
    try:
        yield _shared.engine()
    finally:
        _shared.let_go()


@contextmanager
def engine_kept_open() -> Iterator[Settings]:
    """For a whole flow run: once a task has opened the engine it stays open until the end of the block.

    Nothing is opened here, so that a store out of reach fails a task, which is tried again. Gives the
    settings, which hold the bounds of the run.
    """
    settings = load_settings()
    set_up_logs(settings)
    _shared.hold()
    try:
        yield settings
    finally:
        _shared.let_go()


def note_error(task: str, problem: EngineError) -> None:
    """Count an error that ended a task, if the engine is open; nothing is opened for it."""
    _shared.hold()
    try:
        engine = _shared.opened()
        if engine is not None:
            engine.watch.error(task, problem)
    finally:
        _shared.let_go()


def stop_soon() -> None:
    """The run was interrupted: ask this process's tasks to end at their next step. Holds until all have."""
    _shared.stopping.set()


def check_not_stopping() -> None:
    """Raises Transient when the run was interrupted: what is left to do stays for the next one."""
    if _shared.stopping.is_set():
        raise Transient("the run was interrupted")
