"""When memories were last read: gathered in memory, written in batches, and never in a reader's way."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

from core.errors import EngineError
from core.record.database import Database
from core.record.lifecycle import note_access

logger = logging.getLogger(__name__)

BATCH = 500
MOST = 10_000  # more than this is not remembered: a lost time of access makes a memory look older, no more
WAIT_SECONDS = 5.0


class AccessLog:
    """Gathers what was read, by tenant. Thread-safe; close it once, which writes what is left.

    Times are noted by `clock` (seconds, monotonic) and become the database's own when they are written, so that
    they are right however late that is. Losing some costs nothing but an earlier archiving.
    """

    def __init__(self, database: Database, clock: Callable[[], float]) -> None:
        self._database = database
        self._clock = clock
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._seen: dict[tuple[str, str], float] = {}
        self._since = 0.0
        self._pool: ThreadPoolExecutor | None = None

    def note(self, tenant: str, ids: Iterable[str]) -> None:
        """These were just read. Returns at once and never raises."""
        now = self._clock()
        with self._lock:
            if not self._seen:
                self._since = now
            for memory_id in ids:
                if len(self._seen) < MOST or (tenant, memory_id) in self._seen:
                    self._seen[tenant, memory_id] = now
            if len(self._seen) < BATCH and now - self._since < WAIT_SECONDS:
                return
            self._since = now
            if self._pool is None:
                self._pool = ThreadPoolExecutor(1, thread_name_prefix="access")
            self._pool.submit(self.flush)

    def flush(self) -> None:
        """Write what was gathered, tenant by tenant; what cannot be written is given up, and said in the log."""
        with self._writing:
            with self._lock:
                seen, self._seen = self._seen, {}
            ages: dict[str, dict[str, timedelta]] = {}
            now = self._clock()
            for (tenant, memory_id), at in seen.items():
                ages.setdefault(tenant, {})[memory_id] = timedelta(seconds=max(0.0, now - at))
            for tenant, named in ages.items():
                self._write(tenant, named)

    def close(self) -> None:
        """Write what is left and end the thread."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown()
        self.flush()

    def _write(self, tenant: str, ages: Mapping[str, timedelta]) -> None:
        try:
            with self._database.tenant(tenant) as session:
                note_access(session, tenant, dict(sorted(ages.items())))
        except EngineError as problem:
            logger.warning("%d times of access are lost: %s", len(ages), problem.message)
