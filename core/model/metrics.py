"""What can be watched: every metric by its name, and the figures of one reading. No figure or label holds content."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class Kind(StrEnum):
    """How a figure goes: up and down, only up until it begins again, or as a spread."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric: its name as it is shown, how it goes, what it says, and the names of its labels."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()


MODEL = ("provider", "model")
OTHERS = ""  # the tenant label of all tenants that are not shown by name, together: no tenant is called so
TODAY = "since midnight, UTC, when it begins again at 0"
SEARCH_SECONDS = "memory_search_seconds"
SEARCH_DEGRADED = "memory_search_degraded_total"
SEARCH_FAILED = "memory_search_failed_total"
PROBLEM = "memory_metrics_problem"
DRIFT_CLEAN = "memory_drift_clean_timestamp_seconds"
DRIFT_FOUND = "memory_drift_found_timestamp_seconds"

METRICS: tuple[Metric, ...] = (
    Metric("memory_records", Kind.GAUGE, "Memories an index of the tenant should hold", ("tenant",)),
    Metric("memory_index_points", Kind.GAUGE, "Points of an index when it was last counted", ("tenant", "generation")),
    Metric("memory_backlog_entries", Kind.GAUGE, "Index work that waits, of an index at most 100,000", ("tenant",)),
    Metric("memory_backlog_oldest_seconds", Kind.GAUGE, "Age of the oldest index work that waits", ("tenant",)),
    Metric("memory_set_aside_entries", Kind.GAUGE, "Index work that was taken out of the queue", ("tenant",)),
    Metric(DRIFT_CLEAN, Kind.GAUGE, "When all of a store was last compared and agreed; 0: never", ("tenant", "store")),
    Metric(DRIFT_FOUND, Kind.GAUGE, "When something in a store was last found wrong; 0: never", ("tenant", "store")),
    Metric("memory_embedding_requests_total", Kind.COUNTER, f"Requests to embedding models {TODAY}", MODEL),
    Metric("memory_embedding_texts_total", Kind.COUNTER, f"Texts embedded {TODAY}", MODEL),
    Metric("memory_embedding_tokens_total", Kind.COUNTER, f"Tokens the models counted {TODAY}", MODEL),
    Metric("memory_embedding_cost_usd_total", Kind.COUNTER, f"US dollars, at list prices, {TODAY}", MODEL),
    Metric("memory_embedding_reused_texts_total", Kind.COUNTER, f"Texts whose vector was known {TODAY}", MODEL),
    Metric("memory_errors_total", Kind.COUNTER, "Errors that ended a task, by their type", ("task", "kind")),
    Metric("memory_cache_lookups_total", Kind.COUNTER, "Look-ups, as far as processes have told", ("cache",)),
    Metric("memory_cache_hits_total", Kind.COUNTER, "Look-ups that were answered", ("cache",)),
    Metric("memory_generations", Kind.GAUGE, "Indexes by state", ("state",)),
    Metric("memory_generations_refused", Kind.GAUGE, "Indexes being built that did not pass the gate"),
    Metric("memory_archive_objects", Kind.GAUGE, "Objects of archived memories"),
    Metric("memory_archive_bytes", Kind.GAUGE, "Bytes of these objects"),
    Metric("memory_events_lag_seconds", Kind.GAUGE, "Age of the oldest deletion that is not in the ledger yet"),
    Metric("memory_stream_lag_events", Kind.GAUGE, "Events streams were not given yet, of a tenant at most 10,000"),
    Metric("memory_stream_lag_seconds", Kind.GAUGE, "Age of the oldest of these events"),
    Metric(SEARCH_SECONDS, Kind.HISTOGRAM, "Searches of this process that were answered"),
    Metric(SEARCH_DEGRADED, Kind.COUNTER, "Of these, answers with something missing"),
    Metric(SEARCH_FAILED, Kind.COUNTER, "Searches of this process that ended with an error"),
    Metric(PROBLEM, Kind.GAUGE, "1: this part could not be read, and its metrics are missing", ("part",)),
)


@dataclass(frozen=True, slots=True)
class Sample:
    """One figure of a metric, with the values of its labels in the metric's order."""

    name: str
    value: float
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Latencies:
    """How long searches took: for each bound in seconds how many took at most that, and all of them with their sum."""

    within: tuple[tuple[float, int], ...] = ()
    count: int = 0
    seconds: float = 0.0
    degraded: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """All figures at one moment. A part that could not be read is named in a sample of its own."""

    samples: tuple[Sample, ...] = ()
    searches: Latencies = field(default_factory=Latencies)
