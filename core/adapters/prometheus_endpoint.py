"""Prometheus: figures in its words, and the endpoint it reads them from."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from prometheus_client import REGISTRY, CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from core.errors import Misconfigured
from core.model import metrics
from core.model.metrics import METRICS, Kind, Latencies, Reading

STOP_SECONDS = 5.0


class ReadingCollector(Collector):
    """Reads figures when Prometheus asks, at most once in `fresh` seconds: many readers cost no more than one.

    `names`: the metrics that are shown.
    """

    def __init__(
        self, read: Callable[[], Reading], names: frozenset[str], fresh: float, clock: Callable[[], float]
    ) -> None:
        self._read = read
        self._names = names
        self._fresh = fresh
        self._clock = clock
        self._lock = threading.Lock()
        self._last: tuple[float, Reading] | None = None

    def describe(self) -> Iterator[Metric]:
        """The metrics by name, without figures: registering them reads nothing."""
        return iter(_families(Reading(), self._names))

    def collect(self) -> Iterator[Metric]:
        """The metrics with their figures."""
        with self._lock:
            now = self._clock()
            if self._last is None or now - self._last[0] >= self._fresh:
                self._last = (now, self._read())
            return iter(_families(self._last[1], self._names))


def register(collector: Collector, registry: CollectorRegistry | None = None) -> None:
    """Show a collector's metrics in a registry; none given: the one a process has of its own."""
    (REGISTRY if registry is None else registry).register(collector)


@contextmanager
def serving(collector: Collector, host: str, port: int) -> Iterator[int]:
    """An endpoint for Prometheus as long as the block lasts; the port (0 asks for any that is free)."""
    registry = CollectorRegistry()
    registry.register(collector)
    try:
        server, thread = start_http_server(port, addr=host, registry=registry)
    except OSError as error:
        raise Misconfigured(f"metrics cannot be served on {host}:{port}: {error.strerror}") from None
    try:
        yield int(server.server_address[1])
    finally:
        server.shutdown()
        server.server_close()
        thread.join(STOP_SECONDS)


def _families(reading: Reading, names: frozenset[str]) -> list[Metric]:
    found: dict[str, GaugeMetricFamily | CounterMetricFamily] = {}
    families: list[Metric] = []
    for one in METRICS:
        if one.name not in names:
            continue
        if one.kind is Kind.HISTOGRAM:
            families.append(_histogram(one, reading.searches))
            continue
        family = GaugeMetricFamily if one.kind is Kind.GAUGE else CounterMetricFamily
        found[one.name] = family(one.name, one.help, labels=list(one.labels))
        families.append(found[one.name])
    searches = reading.searches
    own = {metrics.SEARCH_DEGRADED: searches.degraded, metrics.SEARCH_FAILED: searches.failed}
    for name in own.keys() & found.keys():
        found[name].add_metric([], own[name])
    for sample in reading.samples:
        if sample.name in found:
            found[sample.name].add_metric(list(sample.labels), sample.value)
    return families


def _histogram(metric: metrics.Metric, searches: Latencies) -> HistogramMetricFamily:
    family = HistogramMetricFamily(metric.name, metric.help)
    buckets = [(f"{bound:g}", float(count)) for bound, count in searches.within]
    family.add_metric([], [*buckets, ("+Inf", float(searches.count))], sum_value=searches.seconds)
    return family
