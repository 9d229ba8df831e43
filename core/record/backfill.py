"""Feeding a new generation: the tenant's ids in ranges, each with a cursor, from there into the outbox.

A page is enqueued and the cursor moved in one statement, so that a page is fed or it is not; workers that
feed at once take different ranges. From the outbox on it is work like any other, behind online writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from core.model.generation import Generation
from core.model.outbox import Lane
from core.model.reindex import Progress
from core.record.database import Database
from core.record.queries import query

RANGE = 50_000
PAGE = 5_000


class Backfill:
    """What is left to feed to generations under construction. Every method is one transaction, or one a page."""

    def __init__(self, database: Database, size: int = RANGE, page: int = PAGE) -> None:
        self._database = database
        self.size = size
        self._page = page

    def split(self, generation: Generation) -> None:
        """Cut the tenant's ids into ranges; there already: nothing. To be called after the generation is registered."""
        if self.progress(generation).ranges == 0:
            with self._database.tenant(generation.tenant) as session:
                session.execute(query("backfill_split"), {**_of(generation), "size": self.size})

    def feed(self, generation: Generation, limit: int, wait: timedelta | None = None) -> int:
        """Enqueue up to about `limit` records that the index should hold; how many were. 0: nothing can be taken now.

        Deleted and archived ones are passed over, in pages that may end up empty. With a `wait` they are for batch jobs
        alone, until it is over.
        """
        fed = 0
        while fed < limit:
            values = {
                **_of(generation),
                "limit": min(self._page, limit - fed),
                "lane": int(Lane.BACKFILL),
                "wait": wait,
            }
            with self._database.tenant(generation.tenant) as session:
                row = session.execute(query("backfill_feed"), values).fetchone()
            if row is None:
                return fed
            fed += int(row["fed"])
        return fed

    def progress(self, generation: Generation) -> Progress:
        """How far the generation is."""
        values = {**_of(generation), "lane": int(Lane.BACKFILL)}
        with self._database.tenant(generation.tenant) as session:
            row = session.execute(query("backfill_progress"), values).fetchone()
        return Progress(**{name: int(value) for name, value in (row or {}).items()})

    def enqueue(self, generation: Generation, ids: Sequence[str]) -> None:
        """Enqueue memories for this generation only, behind online writes; what waits comes back once more."""
        values = {**_of(generation), "ids": sorted(ids), "lane": int(Lane.BACKFILL)}
        with self._database.tenant(generation.tenant) as session:
            session.execute(query("outbox_feed"), values)


def _of(generation: Generation) -> dict[str, object]:
    return {"tenant": generation.tenant, "generation": generation.number}
