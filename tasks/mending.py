"""What the resident loop does about drift and events: a glance at the counts, and what follows from it at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from core.assembly import Engine
from core.batch import recover, relay
from core.batch.reconcile import remove
from tasks.engine import check_not_stopping
from tasks.events import Happened, tell

# Tenants that are mended in one look, and how much for each, so that the other chores of the loop have their turn.
TENANTS = 4
REMOVED = 10_000
RECOVERED_PIECES = 10_000
TOLD = 5_000


def mend_what_differs(engine: Engine, tenants: Sequence[str] | None = None) -> str:
    """Compare the counts of every index (of all tenants, or those named) with the record's.

    Where they differ, that looks closer and asks for repairs.
    What is missing goes to the outbox or comes from the snapshot at once; points nobody wants are taken out once they
    are older than the minimum age, by one of the next looks.
    """
    work = replace(engine.upkeep.work(), check=check_not_stopping)
    wrong = [one for one in engine.upkeep.glance(tenants) if one.queued or one.recover]
    said = []
    for one in wrong[:TENANTS]:
        removed = remove(work, one.tenant, REMOVED).removed
        restored = _recover(engine, one.tenant) if one.recover else 0
        found = sum(store.found for store in one.stores)
        tell(Happened.DRIFT_FOUND, one.tenant, found=found, restored=restored)
        said.append(f"{one.tenant}: {found} differ, {restored} restored, {removed} taken out")
    return ", ".join(said)


def tell_events(engine: Engine) -> str:
    """Tell what happened to memories to the tenants' streams, so much of each."""
    work = replace(engine.upkeep.relay_work(), check=check_not_stopping)
    if work.stream is None:
        return ""
    told = sum(relay.step(work, tenant, TOLD).told for tenant in relay.plan(engine.upkeep.event_lag()))
    return f"{told} events told" if told else ""


def _recover(engine: Engine, tenant: str) -> int:
    work = replace(engine.safekeeping.recover_work(), check=check_not_stopping)
    cursor: recover.Cursor | None = recover.BEGINNING
    restored = 0
    for _ in range(RECOVERED_PIECES):
        if cursor is None:
            break
        report = recover.step(work, tenant, cursor)
        restored += report.figures.restored
        cursor = report.cursor
    return restored
