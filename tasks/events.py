"""What happened that somebody may want to be told of: events on the Prefect server, for automations to act on.

They carry names and figures, never the content of memories.
"""

from __future__ import annotations

import logging
from enum import StrEnum

from prefect import runtime
from prefect.events import emit_event
from prefect.settings import PREFECT_API_URL

LOGGER = logging.getLogger(__name__)


class Happened(StrEnum):
    """The events there are."""

    SWAPPED = "memory.reindex.swapped"
    GATE_FAILED = "memory.gate.failed"
    DRIFT_FOUND = "memory.drift.found"
    BUDGET_REACHED = "memory.budget.reached"
    SET_ASIDE = "memory.set_aside"


def tell(happened: Happened, tenant: str, **figures: str | float) -> None:
    """Send an event about a tenant. It is sent in the background, and one that cannot be sent fails nothing.

    Outside of runs, where no server is named, nobody is there to be told, and none is started for it.
    """
    if runtime.flow_run.id is None and not PREFECT_API_URL.value():
        return
    resource = {
        "prefect.resource.id": f"memory.tenant.{tenant}",
        "prefect.resource.name": tenant,
        "memory.tenant": tenant,
    }
    try:
        emit_event(event=happened, resource=resource, payload=dict(figures))
    except Exception as problem:  # noqa: BLE001  whoever cannot be told must not fail a run
        LOGGER.warning("%s of %s could not be told: %s", happened, tenant, type(problem).__name__)


def tell_set_aside(tenant: str, count: int) -> None:
    """Tell that index work of a tenant was set aside, if any was."""
    if count:
        tell(Happened.SET_ASIDE, tenant, count=count)
