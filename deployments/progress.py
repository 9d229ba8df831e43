"""Progress bars on standard error; none where nobody watches."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)

from core.assembly import Engine
from core.errors import EngineError
from deployments.output import error_console

# Counting costs the database something on big tenants: the pause is this many times as long.
PAUSE_FACTOR = 4
SHORTEST_PAUSE = 0.3

Advance = Callable[[int], None]


@contextmanager
def bar(what: str, total: int | None, *, shown: bool = True) -> Iterator[Advance]:
    """A bar for a known number of steps (None: unknown); call what it gives with the number done so far."""
    with _progress(shown=shown) as progress:
        task = progress.add_task(what, total=total)
        yield lambda done: progress.update(task, completed=done)


@contextmanager
def backlog_bars(engine: Engine, tenants: Sequence[str] | None, *, shown: bool = True) -> Iterator[None]:
    """A bar a tenant, fed by looking at the backlog while the block runs: the work knows nothing of bars."""
    if not (shown and error_console().is_terminal):
        yield
        return
    stop = threading.Event()
    with _progress(shown=True) as progress:
        watcher = threading.Thread(target=_watch, args=(engine, tenants, progress, stop), daemon=True)
        watcher.start()
        try:
            yield
        finally:
            stop.set()
            watcher.join()


def _watch(engine: Engine, tenants: Sequence[str] | None, progress: Progress, stop: threading.Event) -> None:
    bars = _Bars(progress)
    for _ in count():
        last = stop.is_set()
        began = time.monotonic()
        try:
            bars.show({one.tenant: one.waiting for one in engine.backlog(tenants)})
        except EngineError:
            return  # the work itself meets the same and says so
        if last:
            return
        stop.wait(max(SHORTEST_PAUSE, PAUSE_FACTOR * (time.monotonic() - began)))


class _Bars:
    """One bar a tenant. What is written meanwhile makes its bar longer."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._most: dict[str, int] = {}
        self._bars = {"": progress.add_task("starting the flow", total=None)}

    def show(self, waiting: dict[str, int]) -> None:
        """Bring the bars to what waits now."""
        for tenant, left in waiting.items():
            most = self._most[tenant] = max(left, self._most.get(tenant, 0))
            if most and tenant not in self._bars:
                self._progress.update(self._bars[""], visible=False)
                self._bars[tenant] = self._progress.add_task(f"embed {tenant}", total=most)
            if tenant in self._bars:
                self._progress.update(self._bars[tenant], total=most, completed=most - left)


def _progress(*, shown: bool) -> Progress:
    console = error_console()
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        disable=not (shown and console.is_terminal),
        transient=True,
    )
