"""The resident loop as a flow, for servers that run everything: it lasts as long as it is told to."""

from __future__ import annotations

import threading
import time
from typing import Annotated

from prefect import flow
from prefect.logging import get_run_logger
from pydantic import Field

from core.settings import load_settings
from tasks.engine import stop_soon
from tasks.tending import chores_of
from tasks.tending import tend as tend_until


@flow(name="tend", flow_run_name="tend for {for_minutes} minutes", persist_result=False)
def tend(
    for_minutes: Annotated[float, Field(gt=0, le=10_080, description="How long the loop runs, at the most")] = 1440,
) -> int:
    """Embed what waits within seconds, ship deletions, follow batch jobs. How many looks it took.

    Can be stopped, killed, and run beside itself: whoever claims work has it. Outages of stores are waited for.
    """
    until = time.monotonic() + for_minutes * 60
    try:
        return tend_until(chores_of(load_settings()), threading.Event(), time.monotonic, until, get_run_logger())
    except BaseException:
        # A cancelled run: what is under way ends after its present batch.
        stop_soon()
        raise


if __name__ == "__main__":
    tend()
