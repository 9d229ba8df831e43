"""The outbox: claiming work under a lease, and ending each claim well, for later, or set aside.

Lock order: whoever locks several entries in one statement does so in the order of ids, and every step
here is a transaction of its own, so that workers and writers never wait for each other in a circle.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import timedelta

from core.model.outbox import Backlog, Claim, Entry, Lane, SetAside
from core.record.database import Database, Session, tuples
from core.record.generations import generation_of
from core.record.queries import query


class Outbox:
    """The queue of index work of one database. Every method is one transaction (or takes the caller's)."""

    def __init__(self, database: Database, lease: timedelta) -> None:
        self._database = database
        self._lease = lease

    def claim(
        self, owner: uuid.UUID, limit: int, tenants: Sequence[str] | None, without: Sequence[str] = ()
    ) -> Claim | None:
        """A batch of the generation whose turn it is, leased to `owner`; None: nothing can be claimed now.

        `tenants` None means all; generations in the spaces of `without` (fingerprints) are left out: their
        provider cools down. Online writes go before backfill, and tenants take turns.
        """
        with self._database.across() as session:
            names = None if tenants is None else list(tenants)
            turn = session.execute(query("outbox_turn"), {"tenants": names, "without": list(without)}).fetchone()
            if turn is None:
                return None
            generation = generation_of(turn)
            values = {
                "tenant": generation.tenant,
                "generation": generation.number,
                "owner": owner,
                "limit": limit,
                "lease": self._lease,
            }
            entries = tuple(Entry(*row) for row in tuples(session, "outbox_claim", values))
        return Claim(owner, generation, entries)

    def renew(self, session: Session, claim: Claim, ids: Sequence[str]) -> set[str]:
        """Which of `ids` are still leased to the claim's owner; those are leased anew from now."""
        values = {**_of(claim, ids), "lease": self._lease}
        return {memory_id for (memory_id,) in tuples(session, "outbox_renew", values)}

    def finish(self, session: Session, claim: Claim, ids: Sequence[str]) -> set[str]:
        """Remove entries that are done and unchanged since the claim; returns those removed."""
        return {memory_id for (memory_id,) in tuples(session, "outbox_finish", _of(claim, ids))}

    def release(self, claim: Claim, ids: Sequence[str], wait: timedelta, *, failed: bool, done: bool = False) -> None:
        """Give entries back. After a failure the wait doubles each time, up to 64 times `wait`, with jitter.

        `done`: they were brought up to what was claimed; what was enqueued meanwhile waits from now on.
        """
        values = {**_of(claim, ids), "wait": wait, "failed": int(failed), "done": done}
        with self._database.tenant(claim.generation.tenant) as session:
            session.execute(query("outbox_release"), values)

    def set_aside(self, claim: Claim, memory_id: str, reason: str) -> None:
        """Take one entry out of the queue, visible with its reason, until it is enqueued again."""
        values = {**_of(claim, ()), "id": memory_id, "reason": reason}
        with self._database.tenant(claim.generation.tenant) as session:
            session.execute(query("outbox_set_aside"), values)

    def list_set_aside(self, tenant: str, limit: int) -> list[SetAside]:
        """What a tenant has set aside, oldest first."""
        with self._database.tenant(tenant) as session:
            rows = session.execute(query("outbox_list_set_aside"), {"tenant": tenant, "limit": limit}).fetchall()
        return [SetAside(**row) for row in rows]

    def retry(self, tenant: str, ids: Sequence[str] | None = None) -> list[str]:
        """Bring set-aside entries of a tenant (all, or those of `ids`) back into the queue; their ids."""
        with self._database.tenant(tenant) as session:
            values = {"tenant": tenant, "ids": None if ids is None else list(ids)}
            rows = session.execute(query("outbox_retry"), values).fetchall()
        return sorted({row["memory_id"] for row in rows})

    def drop(self, tenant: str, ids: Sequence[str]) -> list[str]:
        """Give set-aside entries of a tenant up; the ids of those that were. Nothing else is touched."""
        with self._database.tenant(tenant) as session:
            rows = session.execute(query("outbox_drop"), {"tenant": tenant, "ids": list(ids)}).fetchall()
        return sorted({row["memory_id"] for row in rows})

    def claimable(self, limit: int, tenants: Sequence[str] | None = None) -> list[str]:
        """Up to `limit` tenants (of all, or those named) with work that can be done now.

        The one served least recently comes first. Cheap.
        """
        values = {"limit": limit, "tenants": None if tenants is None else list(tenants)}
        with self._database.across() as session:
            return [row["tenant"] for row in session.execute(query("outbox_claimable"), values).fetchall()]

    def backlog(self, tenants: Sequence[str] | None = None) -> list[Backlog]:
        """What is there and what is still to do, tenant by tenant."""
        with self._database.across() as session:
            names = None if tenants is None else list(tenants)
            rows = session.execute(query("outbox_backlog"), {"tenants": names}).fetchall()
        return [Backlog(**row) for row in rows]


def enqueue(session: Session, tenant: str, ids: Sequence[str], lane: Lane) -> None:
    """Enqueue memories for every generation of their tenant; each entry's seq rises."""
    session.execute(query("outbox_enqueue"), {"tenant": tenant, "ids": sorted(ids), "lane": int(lane)})


def _of(claim: Claim, ids: Sequence[str]) -> dict[str, object]:
    return {
        "tenant": claim.generation.tenant,
        "generation": claim.generation.number,
        "owner": claim.owner,
        "ids": list(ids),
    }
