"""What the relay of events asks of the record: which events are safe to tell, and how far each tenant has come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from core.model.event import Event, EventLag
from core.record.database import Database
from core.record.queries import query

COUNTED = 10_000


@dataclass(frozen=True, slots=True)
class Relay:
    """The relay's side of the record. Every method is one transaction."""

    database: Database

    def fence(self) -> int:
        """Move the fence; the number up to which nothing can come in any more, for all tenants.

        Called again at once it has come to all that was committed before, unless a transaction is under way since.
        """
        with self.database.across() as session:
            # The number first, the transaction's own number with the next statement: see migration 0061.
            last = session.execute(query("relay_last")).fetchone()
            seq = 0 if last is None else int(last["seq"])
            row = session.execute(query("relay_fence"), {"seq": seq}).fetchone()
        return 0 if row is None else int(row["safe"])

    def next(self, tenant: str, safe: int, limit: int) -> list[Event]:
        """The next events of a tenant up to the safe number, in order."""
        values = {"tenant": tenant, "safe": safe, "limit": limit}
        with self.database.tenant(tenant) as session:
            return [Event(**row) for row in session.execute(query("relay_next"), values).fetchall()]

    def done(self, tenant: str, seq: int) -> None:
        """All events of a tenant up to this one are told."""
        with self.database.tenant(tenant) as session:
            session.execute(query("relay_done"), {"tenant": tenant, "seq": seq})

    def lag(self, tenants: Sequence[str] | None = None) -> list[EventLag]:
        """What each tenant's stream was not given yet."""
        values = {"tenants": None if tenants is None else list(tenants), "most": COUNTED}
        with self.database.across() as session:
            return [EventLag(**row) for row in session.execute(query("relay_lag"), values).fetchall()]
