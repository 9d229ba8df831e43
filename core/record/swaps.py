"""Swap intents: what a swap is going to do is recorded before it is done, and its result after."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import timedelta

from core.errors import Busy, Conflict, LeaseLost
from core.model.generation import Generation, GenerationState
from core.record.database import Database, Row, Session
from core.record.generations import generation_of
from core.record.queries import query

READY = frozenset({GenerationState.VERIFIED, GenerationState.RETIRING})


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """One swap of a tenant, from its live generation to another. `held`: its owner's lease has not run out."""

    tenant: str
    number: int
    old: Generation
    new: Generation
    grace: timedelta
    held: bool


class Swaps:
    """The intents of all tenants, at most one open each. Every method is one transaction."""

    def __init__(self, database: Database, lease: timedelta) -> None:
        self._database = database
        self._lease = lease

    def begin(self, old: Generation, new: Generation, grace: timedelta, owner: uuid.UUID) -> Intent:
        """Record the intent, if the two stand as they must. Raises Conflict if not, Busy when one is open already."""
        tenant = old.tenant
        with self._database.tenant(tenant) as session:
            # In the order of numbers, as everybody locks them.
            rows = {number: _locked(session, tenant, number) for number in sorted({old.number, new.number})}
            _expect(rows[old.number], frozenset({GenerationState.LIVE}))
            _expect(rows[new.number], READY)
            values = {
                "tenant": tenant,
                "from": old.number,
                "to": new.number,
                "grace": grace,
                "owner": owner,
                "lease": self._lease,
            }
            row = session.execute(query("swap_begin"), values).fetchone()
        if row is None:
            raise Busy(f"a swap of {tenant} is under way")
        return Intent(tenant=tenant, number=int(row["number"]), old=old, new=new, grace=grace, held=True)

    def open(self, tenant: str) -> Intent | None:
        """The intent of a tenant that has not ended."""
        with self._database.tenant(tenant) as session:
            row = session.execute(query("swap_open"), {"tenant": tenant}).fetchone()
            if row is None:
                return None
            sides = [_locked(session, tenant, int(row[side])) for side in ("from_generation", "to_generation")]
        old, new = (generation_of(side) for side in sides)
        return Intent(
            tenant=tenant, number=int(row["number"]), old=old, new=new, grace=row["grace"], held=bool(row["held"])
        )

    def take_over(self, intent: Intent, owner: uuid.UUID) -> bool:
        """Make an intent ours whose owner has not been heard of for its whole lease. False: another was first."""
        values = {"tenant": intent.tenant, "number": intent.number, "owner": owner, "lease": self._lease}
        with self._database.tenant(intent.tenant) as session:
            return session.execute(query("swap_take_over"), values).fetchone() is not None

    def complete(self, intent: Intent, owner: uuid.UUID) -> None:
        """The alias has moved: the new generation is live, the old one retires. Raises LeaseLost, Conflict."""
        tenant = intent.tenant
        with self._database.tenant(tenant) as session:
            self._end(session, intent, owner, "swapped")
            retired = session.execute(
                query("swap_retire"), {"tenant": tenant, "number": intent.old.number, "grace": intent.grace}
            ).fetchone()
            promoted = session.execute(
                query("swap_promote"), {"tenant": tenant, "number": intent.new.number}
            ).fetchone()
            if retired is None or promoted is None:
                raise Conflict(f"the generations of {tenant} no longer stand as they did when the swap began")

    def give_up(self, intent: Intent, owner: uuid.UUID) -> None:
        """The alias has not moved and will not. Raises LeaseLost."""
        with self._database.tenant(intent.tenant) as session:
            self._end(session, intent, owner, "given up")

    def _end(self, session: Session, intent: Intent, owner: uuid.UUID, outcome: str) -> None:
        values = {"tenant": intent.tenant, "number": intent.number, "owner": owner, "outcome": outcome}
        if session.execute(query("swap_end"), values).fetchone() is None:
            raise LeaseLost(f"another worker has taken over the swap of {intent.tenant}")


def _locked(session: Session, tenant: str, number: int) -> Row:
    row = session.execute(query("generation_lock"), {"tenant": tenant, "number": number}).fetchone()
    if row is None:
        raise Conflict(f"there is no generation {number} of {tenant}")
    return row


def _expect(row: Row, states: frozenset[GenerationState]) -> None:
    if GenerationState(row["state"]) not in states:
        wanted = " or ".join(sorted(states))
        raise Conflict(f"generation {row['number']} of {row['tenant']} is {row['state']}, not {wanted}")
    if row["dropping"]:
        raise Conflict(f"generation {row['number']} of {row['tenant']} is being dropped")
