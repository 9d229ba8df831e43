"""Waiting after a provider asked for less, instead of ending the work."""

from __future__ import annotations

import threading
from collections.abc import Callable

FIRST_SECONDS = 1.0
LONGEST_SECONDS = 60.0
JITTER = 0.25
MOST_WAITS = 8
SLICE_SECONDS = 0.2


class Patience:
    """Shared by the threads of one run: all of them wait when one was asked to. Thread-safe.

    At least what the provider hints is waited, at most a minute; without a hint a second, then twice as long
    each time. Up to a quarter is added, so that runs do not come back in step (`chance` gives 0..1). After
    eight waits with nothing done in between it gives up.
    """

    def __init__(self, clock: Callable[[], float], chance: Callable[[], float]) -> None:
        self._clock = clock
        self._chance = chance
        self._until = clock()
        self._waits = 0
        self._lock = threading.Lock()

    def asked_for_less(self, hint: float | None) -> bool:
        """Note that a request was refused for load. False: that was once too often, or too long a hint to wait for."""
        with self._lock:
            now = self._clock()
            if hint is not None and hint > LONGEST_SECONDS:
                return False
            if now < self._until:
                return True  # of a request sent before the others began to wait
            self._waits += 1
            least = FIRST_SECONDS * 2 ** (self._waits - 1) if hint is None else hint
            self._until = now + min(least, LONGEST_SECONDS) * (1 + JITTER * self._chance())
            return self._waits <= MOST_WAITS

    def eased(self) -> None:
        """Note that a request went through."""
        with self._lock:
            self._waits = 0

    def wait(self, stop: threading.Event, check: Callable[[], None]) -> None:
        """Wait as long as is still to be waited, or until `stop`; what `check`, asked now and then, raises goes out."""
        while not stop.is_set():
            check()
            with self._lock:
                seconds = self._until - self._clock()
            if seconds <= 0:
                return
            stop.wait(min(seconds, SLICE_SECONDS))
