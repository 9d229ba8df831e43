"""What an engine can tell of itself: figures of the record and the cache, and of this process's own searches."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from datetime import datetime

from core.batch.quality import QualityWork
from core.engine.stores import Stores
from core.errors import EngineError, Misconfigured, Unavailable
from core.index.frames import Sampling
from core.model.coverage import together
from core.model.metrics import DRIFT_CLEAN, DRIFT_FOUND, OTHERS, PROBLEM, Reading, Sample
from core.read.rates import Rates
from core.read.tally import SearchTally
from core.record.census import Census, ErrorCounts
from core.settings import Settings

# What a million tokens of a provider's model cost, by batch jobs or not; None: not known.
Price = Callable[[str, str, bool], float | None]


class Watch:
    """Figures of an engine, bounded in time and number. Thread-safe."""

    def __init__(self, settings: Settings, stores: Stores, rates: Rates) -> None:
        self.searches = SearchTally()
        self._settings = settings
        self._stores = stores
        self._census = Census(stores.database, settings.metrics_timeout)
        self._rates = rates
        self._tenants = settings.metrics_tenants
        self._errors = ErrorCounts(self._census)
        self._lock = threading.Lock()

    def quality_work(self, now: datetime, chance: random.Random) -> QualityWork:
        """What the quality chore works with. Raises Misconfigured where nobody was given to judge."""
        if self._stores.checker is None:
            raise Misconfigured("this engine was opened without a checker")
        sampling = Sampling(
            database=self._stores.database,
            index=self._stores.index,
            blobs=self._stores.blobs,
            limit=self._settings.quality_rows,
            chance=chance,
            now=now,
        )
        return QualityWork(sampling=sampling, checker=self._stores.checker, rows=self._settings.quality_rows)

    def error(self, task: str, problem: EngineError) -> None:
        """Note an error that ended a task. Never raises: what cannot be noted now is noted with the next."""
        with self._lock:
            self._errors.add(task, type(problem).__name__)
            if not isinstance(problem, Unavailable):  # it may be the record itself: no second wait for it
                self._told()

    def close(self) -> None:
        """Note what is not noted yet, if the record can be reached."""
        with self._lock:
            self._told()

    def own(self) -> Reading:
        """The figures of this process alone; no store is asked."""
        return Reading(searches=self.searches.latencies())

    def reading(self, price: Price) -> Reading:
        """All figures. A part that cannot be read in time is named in `memory_metrics_problem`; the others stand."""
        parts: dict[str, Callable[[], Iterator[Sample]]] = {
            "coverage": self._coverage,
            "use": lambda: self._use(price),
            "errors": self._known_errors,
            "generations": self._generations,
            "archive": self._archive,
            "events": self._events,
            "cache": self._cache,
        }
        samples: list[Sample] = []
        for part, read in parts.items():
            try:
                found = list(read())
            except EngineError:
                samples.append(Sample(PROBLEM, 1, (part,)))
            else:
                samples += [*found, Sample(PROBLEM, 0, (part,))]
        return Reading(samples=tuple(samples), searches=self.searches.latencies())

    def _told(self) -> None:
        try:
            self._errors.tell()
        except EngineError:
            return  # kept for the next time

    def _coverage(self) -> Iterator[Sample]:
        found = self._census.coverage()
        shown, rest = found[: self._tenants], found[self._tenants :]
        for one in [*shown, together(OTHERS, rest)]:
            yield Sample("memory_records", one.records, (one.tenant,))
            yield Sample("memory_backlog_entries", one.waiting, (one.tenant,))
            yield Sample("memory_set_aside_entries", one.set_aside, (one.tenant,))
            yield Sample("memory_backlog_oldest_seconds", one.waited, (one.tenant,))
            for generation, points in one.points.items():
                yield Sample("memory_index_points", points, (one.tenant, str(generation)))
            for name, moments in ((DRIFT_CLEAN, one.clean_at), (DRIFT_FOUND, one.found_at)):
                for store, at in moments.items():
                    yield Sample(name, 0.0 if at is None else at.timestamp(), (one.tenant, store))

    def _use(self, price: Price) -> Iterator[Sample]:
        for model, use in self._census.use_today().items():
            for name in ("requests", "texts", "tokens", "reused_texts"):
                yield Sample(f"memory_embedding_{name}_total", getattr(use, name), model)
            money = use.money(price(*model, False), price(*model, True))
            if money is not None:
                yield Sample("memory_embedding_cost_usd_total", money, model)

    def _known_errors(self) -> Iterator[Sample]:
        for place, count in self._census.errors().items():
            yield Sample("memory_errors_total", count, place)

    def _generations(self) -> Iterator[Sample]:
        found = self._census.generations()
        for one in found:
            yield Sample("memory_generations", one.generations, (one.state,))
        yield Sample("memory_generations_refused", sum(one.failed for one in found if one.state == "building"))

    def _archive(self) -> Iterator[Sample]:
        objects, size = self._census.archive()
        yield Sample("memory_archive_objects", objects)
        yield Sample("memory_archive_bytes", size)

    def _events(self) -> Iterator[Sample]:
        yield Sample("memory_events_lag_seconds", self._census.unshipped())
        if self._stores.events is not None:  # without a cache there are no streams, and nothing waits for them
            waiting, seconds = self._census.relay()
            yield Sample("memory_stream_lag_events", waiting)
            yield Sample("memory_stream_lag_seconds", seconds)

    def _cache(self) -> Iterator[Sample]:
        for kind, (asked, hit) in self._rates.rates().items():
            yield Sample("memory_cache_lookups_total", asked, (kind,))
            yield Sample("memory_cache_hits_total", hit, (kind,))
