"""How many tokens a day and a run may ask of a provider."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Budget:
    """Tokens a day (UTC, all workers together) and a run (this process) may take; None: as many as there are.

    It is asked before a batch begins, so that what is under way may pass it by as much as those batches take.
    `spent_today` tells what all workers have taken today. Thread-safe.
    """

    def __init__(self, a_day: int | None, a_run: int | None, spent_today: Callable[[], int]) -> None:
        self._a_day = a_day
        self._a_run = a_run
        self._spent_today = spent_today
        self._spent = 0
        self._lock = threading.Lock()

    def spend(self, tokens: int) -> None:
        """Take tokens off the run's budget."""
        with self._lock:
            self._spent += tokens

    def used_up(self) -> str | None:
        """Which budget is used up, in words; None: work may go on. Raises Transient when nobody can say."""
        with self._lock:
            spent = self._spent
        if self._a_run is not None and spent >= self._a_run:
            return f"the run's budget of {self._a_run:,} tokens is used up"
        if self._a_day is not None and self._spent_today() >= self._a_day:
            return f"the day's budget of {self._a_day:,} tokens is used up"
        return None

    def left(self) -> int | None:
        """How many tokens may still be asked for, 0 or more; None: as many as one likes. Raises as `used_up` does."""
        with self._lock:
            spent = self._spent
        rooms = [] if self._a_run is None else [self._a_run - spent]
        if self._a_day is not None:
            rooms.append(self._a_day - self._spent_today())
        return max(0, min(rooms)) if rooms else None
