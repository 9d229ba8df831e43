"""Commands that stay: the resident loop in the foreground, until its time is over or a signal ends it."""

from __future__ import annotations

import logging
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from core.settings import Settings, load_settings
from deployments.prefect_settings import settle_prefect

if TYPE_CHECKING:
    from tasks.tending import Tended

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def stay(chosen: Callable[[Settings], Sequence[Tended]], name: str, for_minutes: float | None = None) -> None:
    """Do the chores when each is due. A signal ends it after the batch under way; what it does goes to standard error.

    Raises Misconfigured when the home folder cannot be made.
    """
    settings = load_settings()
    settle_prefect(settings.home)
    from tasks.engine import stop_soon
    from tasks.tending import tend

    stop = threading.Event()

    def end(_number: int, _frame: object) -> None:
        stop.set()
        stop_soon()

    before = {number: signal.signal(number, end) for number in ENDING}
    handler = _to_stderr()
    logger = logging.getLogger(f"memory.{name}")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    try:
        chores = chosen(settings)
        logger.info("looking for work every %g s", min(one.every.total_seconds() for one in chores))
        until = float("inf") if for_minutes is None else time.monotonic() + for_minutes * 60
        looks = tend(chores, stop, time.monotonic, until, logger)
        logger.info("ended after %d looks", looks)
    finally:
        logger.removeHandler(handler)
        for number, handled in before.items():
            signal.signal(number, handled)


def _to_stderr() -> logging.Handler:
    """Lines where a service's log is read."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    return handler
