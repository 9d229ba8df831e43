"""An engine's figures for Prometheus: served by a process of their own, or shown among a service's own metrics."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from core.adapters.prometheus_endpoint import ReadingCollector, register, serving
from core.assembly.models import price_of
from core.engine import Engine
from core.model.metrics import METRICS, SEARCH_DEGRADED, SEARCH_FAILED, SEARCH_SECONDS, Reading

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

OWN = frozenset({SEARCH_SECONDS, SEARCH_DEGRADED, SEARCH_FAILED})
ALL = frozenset(metric.name for metric in METRICS)


def register_metrics(engine: Engine, registry: CollectorRegistry | None = None) -> None:
    """Show how this process's searches fare among a service's own metrics; reading them asks no store.

    The figures of the stores are for one process to read: `memory metrics`.
    """
    register(ReadingCollector(engine.watch.own, OWN, 0.0, time.monotonic), registry)


def reading_of(engine: Engine) -> Reading:
    """All figures, with money at list prices."""
    return engine.watch.reading(lambda provider, model, batch: price_of(provider, model, batch=batch))


@contextmanager
def serving_metrics(engine: Engine, host: str, port: int) -> Iterator[int]:
    """An endpoint with all figures as long as the block lasts; its port."""
    fresh = engine.settings.metrics_fresh.total_seconds()
    with serving(ReadingCollector(lambda: reading_of(engine), ALL, fresh, time.monotonic), host, port) as found:
        yield found
